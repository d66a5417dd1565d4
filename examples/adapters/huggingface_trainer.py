"""
Hugging Face Trainer
====================

Run it with ``pip install transformers && python examples/adapters/huggingface_trainer.py``.

Two parts: the loss in the model, and a callback that calls the curriculum after every epoch. Any encoder with one
vector per token works; this one is a tiny BERT with random weights, so that nothing is downloaded. Replace it with
``AutoModel.from_pretrained(...)``. Margins, strength and correction are buffers of the loss, so the Trainer's
checkpoints include them. The callback saves the curriculum's state, so a resumed run continues in its stage.
"""

import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import (
    BertConfig,
    BertModel,
    Trainer,
    TrainerCallback,
    TrainerState,
    TrainingArguments,
)

from equipoise.losses import UncertaintyMarginLoss
from equipoise.training import Curriculum

WORDS, LENGTH, COUNTS = 60, 12, (400, 120, 30)
"""Words of a made-up language, words per sentence, and training sentences per class."""


class MeanOfTokens(nn.Module):
    """Features (batch, hidden size) of a sentence: the mean of its tokens' vectors, with dropout."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.encoder(input_ids=input_ids).last_hidden_state.mean(1)


class TextClassifier(nn.Module):
    """An encoder under the paper's loss, with the answers that the Trainer expects."""

    def __init__(self, encoder: nn.Module, classes: int) -> None:
        super().__init__()
        self.backbone = MeanOfTokens(encoder)
        self.head = UncertaintyMarginLoss(encoder.config.hidden_size, classes, dropout=0.3, sample_level="expected")

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        features = self.backbone(input_ids)
        answer = {"logits": self.head.logits(features)}
        return answer if labels is None else {"loss": self.head(features, labels)} | answer


class CurriculumCallback(TrainerCallback):
    """Run the curriculum: softmax stage, class level, sample level.

    Args:
        curriculum: with as many epochs as the Trainer has.
        held_out: batches that are never trained on, for the correction at the end of the class stage; None skips it.
    """

    def __init__(self, curriculum: Curriculum, held_out: DataLoader | None = None) -> None:
        self.curriculum, self.held_out = curriculum, held_out
        self.seen: list[tuple[str, float]] = []  # stage and strength of each epoch

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, *_: object, model: TextClassifier, **__: object
    ) -> None:
        if state.global_step:  # resumed from a checkpoint
            self.curriculum.load_state_dict(load_file(self.state_file(args, state)))
        self.curriculum.start(model.head)

    def on_epoch_end(self, *_: object, model: TextClassifier, train_dataloader: DataLoader, **__: object) -> None:
        record = self.curriculum.end_epoch(model.backbone, model.head, train_dataloader, held_out=self.held_out)
        self.seen.append((record["stage"], record["strength"]))

    def on_save(self, args: TrainingArguments, state: TrainerState, *_: object, **__: object) -> None:
        save_file(self.curriculum.state_dict(), self.state_file(args, state))

    @staticmethod
    def state_file(args: TrainingArguments, state: TrainerState) -> Path:
        """Return the path of the curriculum's state, beside the Trainer's own."""
        return Path(args.output_dir, f"checkpoint-{state.global_step}", "curriculum.safetensors")


def sentences(counts: tuple[int, ...], *, seed: int) -> tuple[Tensor, Tensor]:
    """Return words (sentences, length) and classes; a third of the words come from twelve that belong to the class."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    words = torch.randint(WORDS, (len(y), LENGTH), generator=generator)
    own = torch.randint(12, (len(y), LENGTH), generator=generator) + 12 * y.unsqueeze(1)
    return torch.where(torch.rand(len(y), LENGTH, generator=generator) < 0.33, own, words), y


def make_model(classes: int) -> TextClassifier:
    """Return an encoder of one layer with 32 units, which trains in seconds on a CPU."""
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
    )
    return TextClassifier(BertModel(config, add_pooling_layer=False), classes)


def as_rows(data: tuple[Tensor, Tensor]) -> list[dict[str, Tensor]]:
    """Return sentences in the form that the Trainer takes."""
    return [{"input_ids": words, "labels": label} for words, label in zip(*data, strict=True)]


def train(
    model: TextClassifier,
    callback: CurriculumCallback,
    data: tuple[Tensor, Tensor],
    folder: str,
    *,
    resume: str | None = None,
) -> Trainer:
    """Train; everything but the callback is as in any other run of the Trainer."""
    arguments = TrainingArguments(
        output_dir=folder,
        num_train_epochs=callback.curriculum.epochs,
        per_device_train_batch_size=32,
        learning_rate=3e-3,
        save_strategy="epoch",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
        seed=0,
    )
    trainer = Trainer(model, arguments, train_dataset=as_rows(data), callbacks=[callback])
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def main(epochs: int = 9) -> tuple[TextClassifier, CurriculumCallback, Tensor]:
    """Fit imbalanced sentences; return the model, the callback, and the recall of each class in a balanced test set."""
    torch.manual_seed(0)
    data, held_out, (x_test, y_test) = (
        sentences(counts, seed=seed)
        for seed, counts in enumerate((COUNTS, tuple(count // 10 for count in COUNTS), (300,) * len(COUNTS)))
    )
    model = make_model(len(COUNTS))
    callback = CurriculumCallback(Curriculum(epochs), DataLoader(as_rows(held_out), batch_size=64))
    with tempfile.TemporaryDirectory() as folder:
        train(model, callback, data, folder)
    with torch.no_grad():
        right = model.eval()(x_test)["logits"].argmax(-1) == y_test
    return model, callback, torch.stack([right[y_test == label].double().mean() for label in range(len(COUNTS))])


if __name__ == "__main__":
    model, callback, recall = main()
    for epoch, (stage, strength) in enumerate(callback.seen, 1):
        print(f"epoch {epoch:2}: {stage:8} strength {strength:.2f}")
    for label, found in enumerate(recall):
        margin = float(model.head.margins[label])
        print(f"class {label}: {COUNTS[label]} sentences, margin {margin:.2f}, {found:.0%} found")
