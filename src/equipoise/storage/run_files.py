"""Names of the files in a run's folder and in a saved model's, each said once."""

RECORD, SPLIT, METRICS = "run.json", "split.json", "metrics.jsonl"
CHECKPOINTS = "checkpoints"
MODEL, MODEL_RECORD, MEMBERS = "model.safetensors", "model.json", "members"
"""A saved model: its tensors, its record, and the folder of a blend's members."""
FINISHED = MODEL_RECORD
"""Written last of all: a folder with it is a finished run."""
SOFTMAX, EXTRACTOR = "softmax.safetensors", "extractor.safetensors"
SCORES, BEFORE_SCORES, HELD_OUT, GALLERY = "scores.json", "before_scores.json", "held_out.npz", "gallery.json"
LABELS, REPORT = "labels.npz", "report.html"
DECISION, ANSWERS = "decision.json", "answers.csv"
"""What ``equipoise rebalance`` writes."""
