"""My Hugging Face Trainer: a loss and metrics. ``python examples/my_transformers.py [FOLDER]`` draws a figure.

A tiny BERT of random weights learns to tell made-up sentences apart, so that nothing has to be downloaded.
"""

import sys
import warnings
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from softkin import diagrams, metrics
from softkin.predictions import from_trainer
from softkin.transformers import TrainerLoss, class_names, compute_metrics

warnings.filterwarnings("ignore")
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)
names = ["apple", "pear", "car", "truck"]
generator = torch.Generator().manual_seed(0)


def sentences(count):
    """Rows of eight words, each with probability 0.4 one of its class's own twelve, else any of the 48."""
    rows = []
    for label in torch.randint(len(names), (count,), generator=generator).tolist():
        own = torch.randint(12 * label, 12 * label + 12, (8,), generator=generator)
        other = torch.randint(48, (8,), generator=generator)
        words = torch.where(torch.rand(8, generator=generator) < 0.4, own, other)
        rows.append({"input_ids": words, "labels": label})
    return rows


torch.manual_seed(0)
model = BertForSequenceClassification(
    BertConfig(
        vocab_size=48, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=16, id2label=dict(enumerate(names)),
    )
)  # fmt: skip
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir=str(folder), report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True, logging_steps=1000,
        num_train_epochs=3, per_device_train_batch_size=16, gradient_accumulation_steps=2, learning_rate=3e-3,
    ),
    train_dataset=sentences(400),
    eval_dataset=sentences(200),
    compute_loss_func=TrainerLoss.from_model(model, alpha=0.1),  # the names are in the model's configuration
    compute_metrics=compute_metrics,
)  # fmt: skip
trainer.train()
print({name: round(value, 3) for name, value in trainer.evaluate().items() if "ece" in name or "nll" in name})
test = from_trainer(trainer.predict(sentences(300)), kind="logits", class_names=class_names(model))
gap = 100 * metrics.signed_gap(test.probabilities, test.known_labels)
mend = "more smoothing, or a temperature" if gap > 0 else "less smoothing, or a temperature"
print(f"Verdict: the mean confidence is {gap:+.1f} points from the accuracy; {mend} would mend it.")
diagrams.reliability(test.probabilities, test.known_labels).savefig(folder / "my_transformers.png")
