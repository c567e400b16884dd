"""Images and texts from files."""

import numpy as np
import pytest
import torch

from softkin import SoftkinError
from softkin.report import attach


def test_images_from_parquet_by_row_or_by_number(tmp_path):
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    def png(value):
        buffer = io.BytesIO()
        Image.fromarray(np.full((4, 4, 3), value, np.uint8)).save(buffer, "PNG")
        return {"bytes": buffer.getvalue()}

    pq.write_table(pa.table({"img": [png(value) for value in range(5)]}), tmp_path / "i.parquet")
    assert attach.images(tmp_path / "i.parquet", None, 5)[3][0, 0, 0] == 3
    assert attach.images(tmp_path / "i.parquet", torch.tensor([4, 1]), 2)[0][0, 0, 0] == 4
    with pytest.raises(SoftkinError, match="must hold as many images as there are samples: it holds 5 for 3."):
        attach.images(tmp_path / "i.parquet", None, 3)


def test_folders_and_texts_that_do_not_fit_are_one_sentence(tmp_path):
    with pytest.raises(
        SoftkinError, match="must hold an image for each of the 2 samples, .* it holds 0, and none is called 'a'"
    ):
        attach.images(tmp_path, ["a", "b"], 2)
    (tmp_path / "t.csv").write_text("words\nx\n")
    with pytest.raises(SoftkinError, match="must have a column of texts, called `text`, `texts`, `sentence`"):
        attach.texts(tmp_path / "t.csv", None, 1)
    with pytest.raises(SoftkinError, match="must have a column of images, called `image`"):
        attach.images(tmp_path / "t.csv", None, 1)
