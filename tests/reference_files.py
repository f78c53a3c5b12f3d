"""Files in the form of XSTest's completions and of refusal_stability, with texts of our own."""

from __future__ import annotations

from pathlib import Path

XSTEST = "id,type,prompt,completion,annotation_1,annotation_2,agreement,final_label,gpt4_label\n"
ROW = "{},t,p{},c,1_full_compliance,{},1,{},{}\n"


def xstest_files(folder: Path, final: str = "2_full_refusal") -> None:
    for model in ("gpt4", "llama2new"):
        text = XSTEST + ROW.format(1, 1, "3_partial_refusal", "3_partial_refusal", "1_full_compliance")
        text += ROW.format(2, 2, "2_full_refusal", final, "I would rather not say")
        (folder / f"xstest_v2_completions_{model}_gpteval.csv").write_text(text)


def stability_files(folder: Path, haiku: str) -> None:
    names = ("Qwen_Qwen2.5_7B_Instruct", "meta_llama_Llama_3.1_8B_Instruct")
    for name in names:
        text = "prompt_id,prompt,response,label\na,pa,ra,REFUSE\nb,pb,rb,UNKNOWN\n"
        (folder / f"{name}_temp0.0_seed42_labels.csv").write_text(text)
    (folder / "claude_haiku_llama_qwen25.csv").write_text("model,prompt_id,temperature,seed,label,judge\n" + haiku)


QWEN, LLAMA = "Qwen_Qwen2.5_7B_Instruct", "meta-llama/Llama-3.1-8B-Instruct"


def stability_labels(*left_out: int) -> str:
    words = {"C": "COMPLY", "P": "PARTIAL"}
    lines = [f"{model},{prompt},0.0,42,{words[label]},h\n" for model in (QWEN, LLAMA) for prompt, label in ("bC", "aP")]
    other = f"{QWEN},a,0.0,43,COMPLY,h\n{QWEN},a,0.7,42,COMPLY,h\n"
    return "".join(line for place, line in enumerate(lines) if place not in left_out) + other
