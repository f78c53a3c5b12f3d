"""The benchmark suites: where prompts come from, turned into the prompts table (records.schema.PROMPTS)."""
