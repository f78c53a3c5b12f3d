"""Whether a processor computes in a number format at full speed."""

from __future__ import annotations

from pathlib import Path

# Instructions as Linux names them, on x86 and on ARM.
_INSTRUCTIONS = {
    "bfloat16": {"avx512_bf16", "amx_bf16", "bf16"},
    "float16": {"avx512_fp16", "amx_fp16", "fphp", "asimdhp"},
}


def slow_on_cpu(dtype: str, cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Return whether the processor lacks instructions for a number format; False where that cannot be told.

    Without them bfloat16 was five times slower than float32 (measured on x86).
    """
    wanted = _INSTRUCTIONS.get(dtype)
    if wanted is None:
        return False
    try:
        lines = cpuinfo.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return False
    flags = {word for line in lines if line.partition(":")[0].strip() in ("flags", "Features") for word in line.split()}
    return bool(flags) and not flags & wanted
