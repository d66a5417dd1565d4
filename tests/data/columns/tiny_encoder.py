"""A sentence encoder of two thousand weights, saved as sentence-transformers saves one."""

from pathlib import Path


def save_tiny_encoder(folder: Path, words: list[str], *, seed: int = 0) -> Path:
    """Write an encoder with random weights that knows these words."""
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers import BertConfig, BertModel, BertTokenizer

    inner = folder / "bert"
    inner.mkdir(parents=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set(words))]
    (inner / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizer(str(inner / "vocab.txt"), model_max_length=64).save_pretrained(inner)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=64, **sizes)
        BertModel(config).save_pretrained(inner)
    whole = folder / "encoder"
    SentenceTransformer(str(inner), device="cpu").save(str(whole))  # with the mean over the words
    return whole
