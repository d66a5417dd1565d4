"""Names of the files in a run's folder and in a saved model's folder."""

RECORD, SPLIT, METRICS_LOG = "run.json", "split.json", "metrics.jsonl"
CHECKPOINTS = "checkpoints"
MODEL, MODEL_RECORD, MEMBERS, MODEL_CARD = "model.safetensors", "model.json", "members", "README.md"
"""Files of a saved model: its tensors, its record, the folder of a blend's members, and its model card."""
FINISHED = MODEL_RECORD
"""The file written last: a folder that has it holds a finished run."""
SOFTMAX, EXTRACTOR = "softmax.safetensors", "extractor.safetensors"
SCORES, BEFORE_SCORES, HELD_OUT, GALLERY = "scores.json", "before_scores.json", "held_out.npz", "gallery.json"
LABELS, REPORT = "labels.npz", "report.html"
DECISION, ANSWERS = "decision.json", "answers.csv"
"""Files that ``equipoise rebalance`` writes beside its report."""
