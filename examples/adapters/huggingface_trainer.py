"""The loss and the curriculum in the Hugging Face Trainer: a text classifier, and a callback that moves the stages.

    pip install transformers && python examples/adapters/huggingface_trainer.py

Any encoder that gives one vector a token will do. This one is a tiny BERT with random weights, so that nothing need be
downloaded; ``AutoModel.from_pretrained(...)`` takes its place. The margins, their strength, the correction and the
class uncertainty are buffers of the model, so that the Trainer's own checkpoints keep them and a resumed run goes on in
its stage.
"""

import tempfile

import torch
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertModel,
    Trainer,
    TrainerCallback,
    TrainerState,
    TrainingArguments,
)

from equipoise.losses import UncertaintyMarginLoss
from equipoise.training import Curriculum, Network
from equipoise.uncertainty import class_uncertainty, mc_dropout

WORDS, LENGTH, COUNTS = 60, 12, (400, 120, 30)
"""Of the made-up language, and how many sentences of each class there are to learn from."""


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
        loss = UncertaintyMarginLoss(encoder.config.hidden_size, classes, dropout=0.3, sample_level="expected")
        self.network = Network(MeanOfTokens(encoder), loss)
        self.register_buffer("class_uncertainty", torch.zeros(classes, dtype=torch.float64))  # 0: not yet known

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        features = self.network.backbone(input_ids)
        answer = {"logits": self.network.head.logits(features)}
        return answer if labels is None else {"loss": self.network.head(features, labels)} | answer


class CurriculumCallback(TrainerCallback):
    """Softmax, then the class level, then the sample level.

    Args:
        samples: some thousand training samples, from which the class uncertainty is estimated.
        held_out: samples and labels that are never trained on, for the correction at the end of the class stage; a
            curriculum with ``held_back=0`` leaves it out.
    """

    def __init__(self, curriculum: Curriculum, samples: Tensor, held_out: tuple[Tensor, Tensor] | None = None) -> None:
        self.curriculum, self.samples, self.held_out = curriculum, samples, held_out
        self.seen: list[tuple[str, float]] = []  # stage and strength of each epoch

    def on_train_begin(self, *_: object, model: TextClassifier, **__: object) -> None:
        if bool(model.class_uncertainty.any()):  # of a checkpoint
            self.curriculum.uncertainty = model.class_uncertainty.cpu()

    def on_epoch_begin(
        self, _: TrainingArguments, state: TrainerState, *__: object, model: TextClassifier, **___: object
    ) -> None:
        loss = model.network.head
        stage = self.curriculum.start_epoch(round(state.epoch), loss)
        self.seen.append((stage, float(loss.strength)))

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, *_: object, model: TextClassifier, **__: object
    ) -> None:
        epoch, network, curriculum = round(state.epoch) - 1, model.network, self.curriculum
        if curriculum.wants_uncertainty(epoch):
            outputs = mc_dropout(network, self.samples.to(args.device)).softmax(-1)
            curriculum.set_uncertainty(class_uncertainty(outputs, kind=curriculum.kind), network.head)
            model.class_uncertainty.copy_(curriculum.uncertainty)
        if self.held_out is not None and curriculum.wants_correction(epoch):
            x, y = (tensor.to(args.device) for tensor in self.held_out)
            network.eval()
            with torch.no_grad():
                curriculum.correct(network.head, network.backbone(x), y)
            network.train()


def sentences(counts: tuple[int, ...], *, seed: int) -> tuple[Tensor, Tensor]:
    """Words (sentences, length) and classes; a third of a sentence's words are of its class's own twelve."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    words = torch.randint(WORDS, (len(y), LENGTH), generator=generator)
    own = torch.randint(12, (len(y), LENGTH), generator=generator) + 12 * y.unsqueeze(1)
    return torch.where(torch.rand(len(y), LENGTH, generator=generator) < 0.33, own, words), y


def make_model(classes: int) -> TextClassifier:
    """One layer of 32 units: seconds on a CPU."""
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
    )
    return TextClassifier(BertModel(config, add_pooling_layer=False), classes)


def train(model: TextClassifier, callback: CurriculumCallback, data: tuple[Tensor, Tensor], folder: str) -> Trainer:
    """Everything but the callback is as in any other run of the Trainer."""
    arguments = TrainingArguments(
        output_dir=folder,
        num_train_epochs=callback.curriculum.epochs,
        per_device_train_batch_size=32,
        learning_rate=3e-3,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
        seed=0,
    )
    rows = [{"input_ids": words, "labels": label} for words, label in zip(*data, strict=True)]
    trainer = Trainer(model, arguments, train_dataset=rows, callbacks=[callback])
    trainer.train()
    return trainer


def main(epochs: int = 9) -> tuple[TextClassifier, CurriculumCallback, Tensor]:
    """Fit imbalanced sentences; the model, the callback, and the recall of each class in a balanced test set."""
    torch.manual_seed(0)
    data, held_out, (x_test, y_test) = (
        sentences(counts, seed=seed)
        for seed, counts in enumerate((COUNTS, tuple(count // 10 for count in COUNTS), (300,) * len(COUNTS)))
    )
    model, callback = make_model(len(COUNTS)), CurriculumCallback(Curriculum(epochs), data[0], held_out)
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
        margin = float(model.network.head.margins[label])
        print(f"class {label}: {COUNTS[label]} sentences, margin {margin:.2f}, {found:.0%} found")
