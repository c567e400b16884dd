"""The loss in a real Trainer of Hugging Face, with a tiny BERT of random weights and real sentences."""

import inspect
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import torch.nn.functional as F
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from softkin import losses, metrics, smoothing
from softkin.transformers import TrainerLoss, class_names, compute_metrics

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"),
]


class Sentences(torch.utils.data.Dataset):
    """Words as numbers: no tokenizer has to come from anywhere."""

    def __init__(self, texts, labels, vocabulary):
        self.labels = labels
        self.rows = [[vocabulary.get(word, 1) for word in text.split()[:12]] for text in texts]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        row = self.rows[place]
        padded = row + [0] * (12 - len(row))
        return {
            "input_ids": padded,
            "attention_mask": [int(k < len(row)) for k in range(12)],
            "labels": self.labels[place],
        }


def collate(rows):
    return {key: torch.tensor([row[key] for row in rows]) for key in rows[0]}


@pytest.fixture(scope="module")
def intents(shared_data):
    """The 150 intents of CLINC150: names, and sentences to train on and to validate with."""
    table = pq.read_table(shared_data / "text" / "clinc150.parquet").to_pydict()
    names = sorted(set(table["label"]) - {"oos"})
    assert len(names) == 150
    numbers = {name: number for number, name in enumerate(names)}
    splits = {split: ([], []) for split in ("train", "val")}
    for text, label, split in zip(table["text"], table["label"], table["split"], strict=True):
        if split in splits:
            splits[split][0].append(text)
            splits[split][1].append(numbers[label])
    words = sorted({word for text in splits["train"][0] for word in text.split()})
    vocabulary = {word: place for place, word in enumerate(words, start=2)}
    return names, vocabulary, *(Sentences(*splits[split], vocabulary) for split in ("train", "val"))


def network(names, vocabulary, dropout=0.1):
    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=len(vocabulary) + 2, hidden_size=64, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=64, max_position_embeddings=16, hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout, id2label=dict(enumerate(names)),
        )
    )  # fmt: skip


def trainer(model, folder, train, validation, loss, **options):
    arguments = TrainingArguments(
        output_dir=str(folder), report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True, logging_steps=20,
        learning_rate=3e-3, seed=0, **options,
    )  # fmt: skip
    return Trainer(
        model=model, args=arguments, train_dataset=train, eval_dataset=validation, data_collator=collate,
        compute_loss_func=loss, compute_metrics=compute_metrics,
    )  # fmt: skip


def test_a_bert_learns_intents_and_its_evaluation_is_not_smoothed(intents, tmp_path):
    names, vocabulary, train, validation = intents
    model = network(names, vocabulary)
    loss = TrainerLoss.from_model(model, alpha=0.1)
    work = trainer(model, tmp_path, train, validation, loss, num_train_epochs=2, per_device_train_batch_size=64,
                   per_device_eval_batch_size=500)  # fmt: skip
    work.train()
    measured = work.evaluate()
    assert measured["eval_accuracy"] > 0.15  # 0.007 by chance
    with torch.no_grad():
        batch = collate([validation[place] for place in range(len(validation))])
        logits = model(**{key: batch[key] for key in ("input_ids", "attention_mask")}).logits
    p = logits.double().softmax(1)
    assert measured["eval_nll"] == pytest.approx(metrics.nll(p, batch["labels"]), abs=1e-4)
    assert measured["eval_loss"] == pytest.approx(measured["eval_nll"], abs=2e-3)  # a mean of batches' means
    assert measured["eval_ece_hist"] == pytest.approx(metrics.ece_hist(p, batch["labels"]), abs=1e-4)
    smooth = float(loss.loss_fn(logits, batch["labels"]))
    assert abs(smooth - measured["eval_nll"]) > 0.1  # what would have been taken for the NLL
    both = TrainerLoss(loss.loss_fn, evaluation="smooth")
    with torch.no_grad():
        assert float(both(SimpleNamespace(logits=logits), batch["labels"])) == pytest.approx(smooth)


def test_learned_labels_turn_over_when_a_training_goes_on(intents, tmp_path):
    names, vocabulary, train, validation = intents
    model = network(names, vocabulary)
    loss = TrainerLoss.learned(model, alpha=0.3, evaluation="smooth")
    few, rest = (torch.utils.data.Subset(part, range(600)) for part in (train, validation))
    work = trainer(model, tmp_path, few, rest, loss, num_train_epochs=3, per_device_train_batch_size=100,
                   per_device_eval_batch_size=300, eval_strategy="epoch")  # fmt: skip
    work.train()
    assert int(loss.loss_fn.turned) == 2  # not after the last epoch, which no training follows
    assert int(loss.loss_fn.calls) == 6  # the last epoch's batches: evaluated rows teach nothing
    loss.loss_fn.end_epoch()
    steps = TrainerLoss.learned(model, steps=3)
    work = trainer(network(names, vocabulary), tmp_path, few, rest, steps, num_train_epochs=1,
                   per_device_train_batch_size=100)  # fmt: skip
    work.train()
    assert int(steps.loss_fn.turned) == 2


def test_alpha_moves_after_each_evaluation_that_a_training_follows(intents, tmp_path):
    names, vocabulary, train, validation = intents
    model = network(names, vocabulary)
    loss = TrainerLoss.from_model(model, alpha="auto")
    few = torch.utils.data.Subset(train, range(0, len(train), 50))
    work = trainer(model, tmp_path, few, validation, loss, num_train_epochs=3, per_device_train_batch_size=8,
                   per_device_eval_batch_size=500, eval_strategy="epoch")  # fmt: skip
    work.train()
    gaps = [entry["eval_signed_gap"] for entry in work.state.log_history if "eval_signed_gap" in entry]
    alpha = 0.02
    for gap in gaps[:-1]:  # no training follows the last one
        alpha = min(0.5, max(0.0, alpha + 0.5 * gap))
    assert len(gaps) == 3
    assert alpha != 0.02
    assert loss.loss_fn.alpha == pytest.approx(alpha, abs=1e-5)


def test_alpha_moves_by_the_tokens_that_count():
    loss_fn = losses.SoftLabelCrossEntropy(smoothing.uniform_labels(3), alpha="auto")
    loss = TrainerLoss(loss_fn)
    sure = torch.tensor([9.0, 0.0, 0.0])
    with torch.no_grad():
        for length in (2, 3):  # batches are padded to lengths of their own
            loss({"logits": sure.expand(1, length, 3)}, torch.tensor([[0, 1, -100][:length]]))
    assert loss_fn.alpha == pytest.approx(0.02)
    loss({"logits": sure.expand(1, 2, 3).clone().requires_grad_()}, torch.tensor([[0, 0]]))
    assert loss_fn.alpha == pytest.approx(0.02 + 0.5 * (float(sure.double().softmax(0)[0]) - 0.5))
    loss({"logits": sure.expand(1, 2, 3).clone().requires_grad_()}, torch.tensor([[0, 0]]))
    assert loss_fn.alpha == pytest.approx(0.02 + 0.5 * (float(sure.double().softmax(0)[0]) - 0.5))


def test_accumulated_batches_give_the_gradients_of_one_large_batch(intents, tmp_path):
    names, vocabulary, train, validation = intents
    weights = []
    for size, steps in ((16, 1), (4, 4)):
        model = network(names, vocabulary, dropout=0.0)
        loss = TrainerLoss(losses.SoftLabelCrossEntropy(smoothing.uniform_labels(150, alpha=0.1)))
        work = trainer(model, tmp_path, train, validation, loss, max_steps=3, per_device_train_batch_size=size,
                       gradient_accumulation_steps=steps, optim="sgd")  # fmt: skip
        work.train()
        weights.append(model.classifier.weight.detach().clone())
    untouched = network(names, vocabulary, dropout=0.0).classifier.weight
    assert (weights[0] - untouched).abs().max() > 1e-5
    torch.testing.assert_close(weights[0], weights[1], atol=1e-7, rtol=1e-3)


def test_the_loss_itself_serves_the_trainer_too():
    # Trainer calls compute_loss_func(outputs, labels, num_items_in_batch=…).
    assert "num_items_in_batch=num_items_in_batch" in inspect.getsource(Trainer.compute_loss)
    loss_fn = losses.SoftLabelCrossEntropy(smoothing.uniform_labels(3, alpha=0.1))
    logits, labels = torch.randn(4, 3, requires_grad=True), torch.tensor([0, 1, 2, 0])
    outputs = SimpleNamespace(logits=logits)
    expected = F.cross_entropy(logits, labels, label_smoothing=0.1, reduction="sum") / 8
    assert float(loss_fn(outputs, labels, num_items_in_batch=torch.tensor(8))) == pytest.approx(float(expected))
    assert float(TrainerLoss(loss_fn)(outputs, labels, num_items_in_batch=8)) == pytest.approx(float(expected))
    with torch.no_grad():
        assert float(TrainerLoss(loss_fn)(outputs, labels)) == pytest.approx(float(F.cross_entropy(logits, labels)))


def test_tokens_and_left_out_labels():
    logits = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.tensor([[0, 1, -100, 2, 1], [2, -100, -100, 0, 0]])
    loss_fn = losses.SoftLabelCrossEntropy(smoothing.uniform_labels(3, alpha=0.1))
    expected = F.cross_entropy(logits.movedim(-1, 1), labels, label_smoothing=0.1)
    assert float(TrainerLoss(loss_fn)({"logits": logits}, labels)) == pytest.approx(float(expected), rel=1e-5)
    measured = compute_metrics(SimpleNamespace(predictions=(logits.detach().numpy(), None), label_ids=labels.numpy()))
    kept = labels != -100
    assert measured["nll"] == pytest.approx(float(F.cross_entropy(logits[kept], labels[kept])), rel=1e-5)
    with pytest.raises(ValueError, match="`predictions` must be logits"):
        compute_metrics(SimpleNamespace(predictions=np.zeros((2, 3)), label_ids=np.zeros(3)))


def test_names_of_the_classes():
    named = SimpleNamespace(config=SimpleNamespace(id2label={"1": "dog", "0": "cat"}))
    assert class_names(named) == ["cat", "dog"]
    for wrong, words in (
        ({}, "a mapping from class numbers to names"),
        ({0: "cat", 2: "dog"}, "must name the classes 0 to 1"),
        ({0: "LABEL_0", 1: "LABEL_1"}, "placeholders LABEL_0"),
    ):
        with pytest.raises(ValueError, match=words):
            class_names(SimpleNamespace(id2label=wrong))
