"""Files: round trips to the last bit, errors that say where, and outputs that appear whole or not at all."""

import contextlib
import doctest
import importlib
import io
import os
import re
import stat
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gaussian_transform import io as gio
from gaussian_transform.io import _output, _text

TEXT_EXTENSIONS = [".csv", ".tsv", ".txt", ".xyz"]
EXTENSIONS = [*TEXT_EXTENSIONS, ".npy", ".npz", ".parquet"]
# tmp_path is shared by the examples of one test: each overwrites the file of the last.
shared_folder = settings(
    derandomize=True, max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

bound_by_permissions = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() == 0, reason="root may read and write everything"
)


@pytest.fixture(autouse=True)
def flushed(monkeypatch):
    """Note what is flushed instead of waiting for the disk."""
    modes = []
    monkeypatch.setattr(_output.os, "fsync", lambda descriptor: modes.append(os.fstat(descriptor).st_mode))
    return modes


def points_of(dtype, width):
    finite = st.floats(allow_nan=False, allow_infinity=False, width=width)
    return hnp.arrays(dtype, hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6), elements=finite)


def bits(array):
    return array.view(f"u{array.dtype.itemsize}")


def error_of(call, *arguments, **options):
    with pytest.raises(gio.DataFileError) as caught:
        call(*arguments, **options)
    return str(caught.value)


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# Round trips


@pytest.mark.parametrize("extension", EXTENSIONS)
@given(values=points_of(np.float64, 64))
@shared_folder
def test_float64_comes_back_bit_for_bit(tmp_path, extension, values):
    path = tmp_path / f"points{extension}"
    gio.write_table(path, gio.Table.of(values), overwrite=True)
    back = gio.read_points(path)
    assert back.dtype == np.float64
    np.testing.assert_array_equal(bits(back), bits(values))


@pytest.mark.parametrize("extension", EXTENSIONS)
@given(values=points_of(np.float32, 32))
@shared_folder
def test_float32_comes_back_bit_for_bit(tmp_path, extension, values):
    path = tmp_path / f"points{extension}"
    gio.write_table(path, gio.Table.of(values), overwrite=True)
    back = gio.read_points(path)
    assert back.dtype == (np.float64 if extension in TEXT_EXTENSIONS else np.float32)
    np.testing.assert_array_equal(bits(back.astype(np.float32)), bits(values))


anything = st.text(st.characters(codec="utf-8"), max_size=8)
awkward = st.sampled_from(
    ["a,b", 'say "x"', "a b", " x ", "", "1", "nan", "-2e5", "#x", "ü→", ";", "a\tb", "l\nm", "\r", '"']
)


@pytest.mark.parametrize("extension", [*TEXT_EXTENSIONS, ".parquet"])
@given(names=st.lists(anything | awkward, min_size=1, max_size=4))
@shared_folder
def test_names_come_back(tmp_path, extension, names):
    path = tmp_path / f"points{extension}"
    values = np.arange(2.0 * len(names)).reshape(2, -1)
    gio.write_table(path, gio.Table.of(values, names), overwrite=True)
    back = gio.read_table(path)
    assert back.columns == tuple(names)
    assert back.is_named
    np.testing.assert_array_equal(back.values, values)


@given(names=st.lists(anything | awkward, min_size=1, max_size=4))
@shared_folder
def test_names_come_back_from_npz(tmp_path, names):
    names = [name.rstrip("\0") for name in names]  # NumPy's fixed-width text cannot end in NUL
    path = tmp_path / "points.npz"
    gio.write_table(path, gio.Table.of(np.zeros((1, len(names))), names), overwrite=True)
    assert gio.read_table(path).columns == tuple(names)


@pytest.mark.parametrize("extension", [*TEXT_EXTENSIONS, ".npz", ".parquet"])
@given(texts=st.lists(anything | awkward, min_size=1, max_size=5))
@shared_folder
def test_text_columns_survive(tmp_path, extension, texts):
    texts = [text.rstrip("\0") for text in texts]
    table = gio.Table.of(np.arange(len(texts), dtype=float)[:, None], ["x"]).with_column("t", np.array(texts, object))
    path = tmp_path / f"points{extension}"
    gio.write_table(path, table, overwrite=True)
    back = gio.read_table(path, "x")
    np.testing.assert_array_equal(back.values, table.values)
    column = back.column(1)
    assert (column.to_pylist() if extension == ".parquet" else column.tolist()) == texts


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_labels_and_distances(tmp_path, extension):
    labels = np.array([0, -1, 2])
    distances = np.array([[0.0, 0.1], [0.1, 0.0]])
    gio.write_array(tmp_path / f"labels{extension}", labels, name="label")
    gio.write_array(tmp_path / f"distances{extension}", distances, name="distance")
    np.testing.assert_array_equal(gio.read_points(tmp_path / f"distances{extension}"), distances)
    if extension in TEXT_EXTENSIONS:
        assert (tmp_path / f"labels{extension}").read_text() == "label\n0\n-1\n2\n"
    elif extension == ".parquet":
        assert pq.read_table(tmp_path / "labels.parquet").to_pydict() == {"label": [0, -1, 2]}
        assert pq.read_table(tmp_path / "distances.parquet").column_names == ["distance1", "distance2"]
    else:
        back = np.load(tmp_path / f"labels{extension}")
        back = back["label"] if extension == ".npz" else back
        assert back.dtype == np.int64
        np.testing.assert_array_equal(back, labels)


def test_upper_case_extensions(tmp_path):
    for extension in EXTENSIONS:
        path = tmp_path / f"POINTS{extension.upper()}"
        gio.write_table(path, gio.Table.of(np.ones((2, 2))))
        np.testing.assert_array_equal(gio.read_points(path), np.ones((2, 2)))
    gio.write_array(tmp_path / "D.NPY", np.ones((2, 2)), name="d")
    assert len(list(tmp_path.iterdir())) == len(EXTENSIONS) + 1


def test_unicode_and_awkward_paths(tmp_path):
    folder = tmp_path / "точки и ‘más’ 点"
    folder.mkdir()
    for extension in EXTENSIONS:
        path = folder / f"wölk chen #1{extension}"
        gio.write_table(str(path), gio.Table.of(np.ones((1, 2))))
        assert gio.read_points(str(path)).shape == (1, 2)
    assert len(list(folder.iterdir())) == len(EXTENSIONS)


# Text


@pytest.mark.parametrize(
    "content",
    [
        "1,2\n3,4\n",
        "1;2\n3;4",
        "1\t2\r\n3\t4\r\n",
        "  1   2\n3\t4  \n",
        "1,2\r3,4\r",
        "# made by hand\n\n1,2\n  # between\n\n3,4\n\n",
        "\ufeffx,y\n1,2\n3,4\n",
        "x y\n1 2\n3 4\n",
        ' "x" , "y"\n1, "2"\n3,4\n',
        '"1","2"\n1,2\n3,4\n',
        "1e0, +2.\n.3e1 ,4.0E+00\n",
        '# a lone " in a comment\n1,2\n3,"4"\n',
    ],
)
@pytest.mark.parametrize("extension", TEXT_EXTENSIONS)
def test_ways_to_write_the_same_points(tmp_path, content, extension):
    np.testing.assert_array_equal(gio.read_points(written(tmp_path, f"p{extension}", content)), [[1, 2], [3, 4]])


def test_header_can_be_said(tmp_path):
    path = written(tmp_path, "p.csv", "0,1\n5,6\n")
    assert gio.read_table(path).values.tolist() == [[0, 1], [5, 6]]
    named = gio.read_table(path, header=True)
    assert named.columns == ("0", "1")
    assert named.values.tolist() == [[5, 6]]
    quoted = written(tmp_path, "q.csv", '"0","1"\n"5","6"\n')
    assert gio.read_table(quoted).values.tolist() == [[5, 6]]
    assert gio.read_table(quoted, header=False).values.tolist() == [[0, 1], [5, 6]]
    assert "--header" in error_of(gio.read_table, written(tmp_path, "m.csv", "x,2020\n1,2\n"))
    assert "--header" in error_of(gio.read_table, tmp_path / "p.npy", header=True)


def test_untouched_columns_keep_their_formatting(tmp_path):
    content = 'id,x,y,note,weight\n007,0.5,1.25,"a, b",1.50\n008,2.0,3.5,,1e-3\n'
    path = written(tmp_path, "in.csv", content)
    table = gio.read_table(path, "y,x")
    assert table.values.tolist() == [[1.25, 0.5], [3.5, 2.0]]
    gio.write_table(tmp_path / "out.csv", table)
    assert (tmp_path / "out.csv").read_text() == content
    moved = table.with_values(table.values * 2).with_column("label", np.array([4, 5]))
    gio.write_table(tmp_path / "moved.csv", moved)
    assert (tmp_path / "moved.csv").read_text() == (
        'id,x,y,note,weight,label\n007,1.0,2.5,"a, b",1.50,4\n008,4.0,7.0,,1e-3,5\n'
    )


def test_padding_goes_and_inner_spaces_stay(tmp_path):
    path = written(tmp_path, "in.csv", "x , when, w\n1.5, 2020-01-01 10:00 , 1.50\n")
    table = gio.read_table(path, "x")
    assert table.columns == ("x", "when", "w")
    gio.write_table(tmp_path / "out.csv", table)
    assert (tmp_path / "out.csv").read_text() == "x,when,w\n1.5,2020-01-01 10:00,1.50\n"
    gio.write_table(tmp_path / "out.txt", table)
    assert (tmp_path / "out.txt").read_text() == 'x when w\n1.5 "2020-01-01 10:00" 1.50\n'


def test_text_becomes_numbers_where_nothing_is_lost(tmp_path):
    path = written(tmp_path, "in.csv", "zip,n,w,x,note\n007,-12,1.50,0,a\n100,3,2e-3,1,b\n")
    gio.write_table(tmp_path / "out.parquet", gio.read_table(path, "x"))
    back = pq.read_table(tmp_path / "out.parquet")
    assert [str(column.type) for column in back.columns] == ["string", "int64", "double", "double", "string"]
    assert back.to_pydict() == {
        "zip": ["007", "100"], "n": [-12, 3], "w": [1.5, 0.002], "x": [0.0, 1.0], "note": ["a", "b"]
    }  # fmt: skip
    gio.write_table(tmp_path / "out.npy", gio.read_table(written(tmp_path, "n.csv", "1,2,3\n"), "2"))
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), [[1, 2, 3]])


def test_a_file_without_header_stays_without(tmp_path):
    table = gio.read_table(written(tmp_path, "in.xyz", "1 2\n3 4\n")).with_column("label", np.array([0, 1]))
    gio.write_table(tmp_path / "out.xyz", table)
    assert (tmp_path / "out.xyz").read_text() == "1.0 2.0 0\n3.0 4.0 1\n"
    gio.write_table(tmp_path / "out.parquet", table)
    assert pq.read_table(tmp_path / "out.parquet").column_names == ["x1", "x2", "label"]


def test_blocks_are_seamless(tmp_path, monkeypatch):
    monkeypatch.setattr(_text, "_BLOCK_CHARACTERS", 40)
    monkeypatch.setattr(_text, "_BLOCK_CELLS", 7)
    rng = np.random.default_rng(0)
    table = gio.Table.of(rng.random((50, 2)), ["x", "y"]).with_column("t", np.array([f"line\n{i}" for i in range(50)]))
    gio.write_table(tmp_path / "p.csv", table)
    back = gio.read_table(tmp_path / "p.csv", [1, 2])
    np.testing.assert_array_equal(back.values, table.values)
    assert back.column(2).tolist() == table.column(2).tolist()
    lines = [f"{i},{i}" for i in range(1, 101)]
    lines[49] = "# comment"
    lines[76] = "77,x"
    assert "line 77, column 2" in error_of(gio.read_points, written(tmp_path, "bad.csv", "\n".join(lines)))
    # A block that disagrees with the first line only, and is consistent in itself.
    ragged = "1,2\n" * 30 + "1,2,3\n" * 30
    assert "line 31: 3 cells where line 1 has 2" in error_of(gio.read_points, written(tmp_path, "r.csv", ragged))


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"", ["is empty"]),
        ("# only\n\n", ["holds no points"]),
        ("x,y\n", ["holds no points", "header", "x, y"]),
        ("x,y\n1,2\n3\n", ["line 3", "1 cells", "line 1 has 2", "','"]),
        ("1 2\n1 2 3\n", ["line 2", "3 cells", "white space"]),
        ("x,y\n1,2\n\n# c\n3,abc\n", ["line 5", "column 2 (y)", "'abc'", "not a number", "--columns"]),
        ("1,2\n1_0,4\n", ["line 2", "'1_0'"]),
        ("1,2\n3,٣\n", ["line 2", "'٣'"]),
        ("1,2\n3," + "z" * 500 + "\n", ["line 2", "zzz..."]),
        ("1;2\n1,5;2\n", ["line 2", "column 1", "'1,5'"]),
        ("x,y\n1,\n", ["line 2", "column 2 (y)", "empty"]),
        ("1,,3\n", ["line 1", "column 2", "empty"]),
        (",,\n1,2,3\n", ["line 1", "column 1", "empty"]),
        ("1,2\nnan,4\n", ["line 2", "column 1", "nan", "finite"]),
        ("nan,nan\n1,2\n", ["line 1", "column 1", "nan"]),
        ("1,2\n4,-Inf\n", ["line 2", "column 2", "-Inf", "finite"]),
        ("1,2\n4,1e999\n", ["line 2", "column 2", "1e999", "finite"]),
        ('x,y\n1,2\n"3,4\n5,6\n', ["line 3", "quote", "never closed"]),
        ('"' + "n" * 200_000 + '",y\n1,2\n', ["first line", "field"]),
        (b"x,y\n1,2\n3,\xff4\n", ["line 3", "UTF-8", "byte 3", "0xff"]),
        ("x,y\n1,2\n".encode("utf-16"), ["line 1", "UTF-8"]),
    ],
)
def test_errors_of_text_files(tmp_path, content, parts):
    path = written(tmp_path, "bad.csv", content)
    message = error_of(gio.read_points, path)
    for part in [str(path), *parts]:
        assert part in message


def test_errors_in_files_with_text_columns(tmp_path):
    path = written(tmp_path, "p.csv", "name,x,y\na,1,2\nb,3,?\n")
    assert "line 3, column 3 (y): '?'" in error_of(gio.read_table, path, "x,y")
    path = written(tmp_path, "r.csv", "name,x,y\na,1,2\nb,3,4,5\n")
    assert "line 3: 4 cells where line 1 has 3" in error_of(gio.read_table, path, "x,y")


@pytest.mark.parametrize("extension", EXTENSIONS)
@given(data=st.data())
@settings(shared_folder, max_examples=60)
def test_no_bytes_give_anything_but_points_or_a_plain_error(tmp_path, extension, data):
    whole = tmp_path / f"whole{extension}"
    if not whole.exists():
        gio.write_table(whole, gio.Table.of(np.arange(8.0).reshape(4, 2), ["x", "y"]))
    content = bytearray(whole.read_bytes())
    if data.draw(st.booleans()):
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    else:
        content = data.draw(st.binary(max_size=60) | st.text(",;\t \n\"'#.-1e", max_size=60).map(str.encode))
    path = written(tmp_path, f"p{extension}", bytes(content))
    with contextlib.suppress(gio.DataFileError):
        values = gio.read_points(path)
        assert values.ndim == 2
        assert values.size > 0
        assert np.isfinite(values).all()


# Choosing columns


def test_choosing_columns(tmp_path):
    path = written(tmp_path, "p.csv", '"a,b",x,3,x\n1,2,3,4\n')
    chosen = {
        '"a,b",3': [1, 3],  # a name wins over a number: "3" is the third column here by either
        "1, 2 ": [1, 2],
        "4,1": [4, 1],
    }
    for columns, expected in chosen.items():
        assert gio.read_points(path, columns, header=True).tolist() == [expected]
    assert gio.read_points(path, ["a,b", 4], header=True).tolist() == [[1, 4]]
    swapped = written(tmp_path, "s.csv", '"2","1"\n5,6\n')
    assert gio.read_points(swapped, "1").tolist() == [[6]]
    assert gio.read_points(swapped, [1]).tolist() == [[5]]


@pytest.mark.parametrize(
    ("columns", "parts"),
    [
        ("q", ["'q'", "a, x, x"]),
        ("x", ["2 columns", "'x'", "number"]),
        ("0", ["number 0", "from 1 to 3"]),
        ([4], ["number 4", "from 1 to 3"]),
        ("a,1", ["'a'", "twice"]),
        ([], ["no column"]),
        ("", ["no column"]),
    ],
)
def test_errors_of_columns(tmp_path, columns, parts):
    path = written(tmp_path, "p.csv", "a,x,x\n1,2,3\n")
    message = error_of(gio.read_points, path, columns)
    for part in [str(path), *parts]:
        assert part in message


# npy and npz


def test_npy_columns_and_kinds(tmp_path):
    path = tmp_path / "p.npy"
    for array in (
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(6, dtype=">f4").reshape(2, 3),
    ):
        np.save(path, array)
        values = gio.read_points(path)
        assert values.dtype == (np.float32 if array.dtype.itemsize == 4 else np.float64)
        assert values.flags.c_contiguous
        assert values.flags.writeable
        np.testing.assert_array_equal(values, array)
    np.save(path, np.arange(6, dtype=np.int32).reshape(2, 3))
    assert gio.read_points(path).dtype == np.float64
    table = gio.read_table(path, "3,1")
    assert table.values.tolist() == [[2, 0], [5, 3]]
    gio.write_table(tmp_path / "q.npy", table)
    np.testing.assert_array_equal(np.load(tmp_path / "q.npy"), [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize(
    ("array", "parts"),
    [
        (np.array([[object()]]), ["objects"]),
        (np.arange(3.0), ["(3,)", "two dimensions"]),
        (np.zeros((2, 2, 2)), ["(2, 2, 2)", "two dimensions"]),
        (np.zeros((0, 3)), ["no points", "(0, 3)"]),
        (np.array([["a"]]), ["<U1", "real numbers"]),
        (np.array([[1j]]), ["complex128", "real numbers"]),
        (np.array([[1.0, 2.0], [3.0, np.nan]]), ["row 2", "column 2", "nan", "finite"]),
        (np.array([[np.inf]], dtype=np.float32), ["row 1", "column 1", "inf"]),
    ],
)
@pytest.mark.parametrize("extension", [".npy", ".npz"])
def test_errors_of_arrays(tmp_path, array, parts, extension):
    path = tmp_path / f"p{extension}"
    if extension == ".npy":
        np.save(path, array)
    else:
        np.savez(path, points=array)
        parts = ["Object arrays" if part == "objects" else part for part in parts]
    message = error_of(gio.read_points, path)
    for part in [str(path), *parts]:
        assert part in message
    assert "allow_pickle=True" not in message


def test_npz_finds_the_points(tmp_path):
    path = tmp_path / "p.npz"
    np.savez(path, anything=np.ones((2, 3)), labels=np.arange(2), seed=np.array(3))
    table = gio.read_table(path)
    assert table.values.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert table.columns == ("x1", "x2", "x3", "labels")
    assert table.column(3).tolist() == [0, 1]
    np.savez(path, points=np.zeros((2, 2)), distances=np.ones((2, 2)))
    assert gio.read_points(path).tolist() == [[0, 0], [0, 0]]
    assert gio.read_table(path, "x2").columns == ("x1", "x2")
    np.savez(path, a=np.zeros((2, 2)), b=np.ones((4, 2)))
    message = error_of(gio.read_points, path)
    for part in [str(path), "'points'", "a (2, 2)", "b (4, 2)"]:
        assert part in message
    np.savez(path, a=np.zeros(2))
    assert "a (2,)" in error_of(gio.read_points, path)


def test_npz_holds_columns_of_any_name(tmp_path):
    table = gio.Table.of(np.zeros((2, 1)), ["x"])
    for name in ("file", "allow_pickle", "a/b", "x.npy"):
        table = table.with_column(name, np.array([1, 2]))
    gio.write_table(tmp_path / "p.npz", table)
    assert gio.read_table(tmp_path / "p.npz").columns == table.columns
    clash = table.with_column("points", np.array([1, 2]))
    assert "'points'" in error_of(gio.write_table, tmp_path / "q.npz", clash)


@pytest.mark.parametrize("extension", [".npy", ".npz", ".parquet"])
def test_truncated_and_foreign_files(tmp_path, extension):
    path = tmp_path / f"p{extension}"
    gio.write_table(path, gio.Table.of(np.random.default_rng(0).random((100, 3))))
    whole = path.read_bytes()
    for n_bytes in (1, 5, 8, 60, 130, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:n_bytes])
        assert str(path) in error_of(gio.read_points, path)
    for content in (b"x,y\n1,2\n" * 20, bytes(500)):
        path.write_bytes(content)
        message = error_of(gio.read_points, path)
        assert str(path) in message
        assert "allow_pickle" not in message


def test_a_damaged_member_of_an_npz(tmp_path):
    path = tmp_path / "p.npz"
    gio.write_table(path, gio.Table.of(np.zeros((100, 3))))
    content = bytearray(path.read_bytes())
    content[1000] ^= 255
    path.write_bytes(content)
    assert "damaged" in error_of(gio.read_points, path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("points.npy", b"not an array")
    assert "p.npz" in error_of(gio.read_points, path)


def test_a_header_that_promises_too_much_takes_no_memory(tmp_path):
    path = tmp_path / "p.npy"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**13, 3)})
    path.write_bytes(header.getvalue())
    assert "cut short" in error_of(gio.read_points, path)


def test_npy_cannot_hold_text(tmp_path):
    table = gio.Table.of(np.zeros((1, 1))).with_column("note", np.array(["a"]))
    message = error_of(gio.write_table, tmp_path / "p.npy", table)
    assert "column 2 (note) is text" in message
    assert list(tmp_path.iterdir()) == []


# Parquet


def test_parquet_keeps_the_types_of_other_columns(tmp_path):
    source = pa.table(
        {"when": pa.array([1000, None], pa.timestamp("ms")), "x": [1.5, 2.5], "s": ["ä", None], "n": [1, 2]}
    )
    pq.write_table(source, tmp_path / "in.parquet")
    table = gio.read_table(tmp_path / "in.parquet", "x,n")
    assert table.values.tolist() == [[1.5, 1], [2.5, 2]]
    gio.write_table(tmp_path / "out.parquet", table.with_values(-table.values))
    back = pq.read_table(tmp_path / "out.parquet")
    assert back.column("when").equals(source.column("when"))
    assert back.column("s").equals(source.column("s"))
    assert back.column("x").to_pylist() == [-1.5, -2.5]
    gio.write_table(tmp_path / "out.csv", table)
    assert (tmp_path / "out.csv").read_text() == "when,x,s,n\n1970-01-01 00:00:01,1.5,ä,1.0\n,2.5,,2.0\n"
    gio.write_table(tmp_path / "out.npz", table)
    assert np.load(tmp_path / "out.npz")["s"].tolist() == ["ä", ""]


@pytest.mark.parametrize(
    ("columns", "parts"),
    [
        ({"x": [1.0], "name": ["a"]}, ["column 2 (name)", "string", "--columns"]),
        ({"x": [1.0, None]}, ["row 2", "column 1 (x)", "empty"]),
        ({"x": [1, None]}, ["row 2", "column 1 (x)", "empty"]),
        ({"x": [1.0, 2.0], "y": [1.0, float("inf")]}, ["row 2", "column 2 (y)", "inf"]),
        ({"x": pa.array([], pa.float64())}, ["no points"]),
        ({}, ["no columns"]),
    ],
)
def test_errors_of_parquet(tmp_path, columns, parts):
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table(columns), path)
    message = error_of(gio.read_points, path)
    for part in [str(path), *parts]:
        assert part in message


def test_without_pyarrow_the_message_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for message in (
        error_of(gio.read_points, tmp_path / "p.parquet"),
        error_of(gio.write_table, tmp_path / "p.parquet", gio.Table.of(np.zeros((1, 1)))),
        error_of(gio.file_format, "p.parquet"),
    ):
        assert 'pip install "gaussian-transform[parquet]"' in message
    assert gio.file_format("p.csv") == ".csv"


# Paths


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_missing_files_folders_and_empty_files(tmp_path, extension):
    path = tmp_path / f"p{extension}"
    assert f"{path} does not exist" in error_of(gio.read_points, path)
    assert f"{path} does not exist" in error_of(gio.read_points, str(path))
    (tmp_path / f"d{extension}").mkdir()
    assert "is a folder" in error_of(gio.read_points, tmp_path / f"d{extension}")
    path.touch()
    assert f"{path} is empty" in error_of(gio.read_points, path)
    assert str(path / f"x{extension}") in error_of(gio.read_points, path / f"x{extension}")


@pytest.mark.parametrize("extension", EXTENSIONS)
@bound_by_permissions
def test_no_permission_to_read(tmp_path, extension):
    path = tmp_path / f"p{extension}"
    gio.write_table(path, gio.Table.of(np.zeros((1, 1))))
    path.chmod(0)
    message = error_of(gio.read_points, path)
    assert str(path) in message
    assert "ermission denied" in message


@pytest.mark.parametrize("name", ["p.xlsx", "p", ".csv"])
def test_unknown_extensions_list_the_known(tmp_path, name):
    table = gio.Table.of(np.zeros((1, 1)))
    for message in (error_of(gio.read_points, tmp_path / name), error_of(gio.write_table, tmp_path / name, table)):
        for part in (str(tmp_path / name), *EXTENSIONS):
            assert part in message
    assert list(tmp_path.iterdir()) == []


# Outputs


def test_an_existing_file_needs_overwrite(tmp_path):
    path = written(tmp_path, "p.csv", "old")
    table = gio.Table.of(np.ones((1, 1)))
    for call, arguments in ((gio.write_table, (path, table)), (gio.check_output, (path,))):
        message = error_of(call, *arguments)
        assert str(path) in message
        assert "--overwrite" in message
    assert path.read_text() == "old"
    gio.write_table(path, table, overwrite=True)
    assert path.read_text() == "1.0\n"


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("exists", [False, True])
def test_a_failing_writer_changes_nothing(tmp_path, failure, exists):
    path = tmp_path / "p.csv"
    if exists:
        path.write_text("old")

    def fail():
        with gio.atomic_output(path, overwrite=True) as temporary:
            temporary.write_text("half")
            raise failure

    with pytest.raises(failure):
        fail()
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == ([("p.csv", "old")] if exists else [])


def test_a_full_disk_is_a_plain_error(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(gio._WRITERS, ".csv", full)
    message = error_of(gio.write_table, tmp_path / "p.csv", gio.Table.of(np.ones((1, 1))))
    assert f"{tmp_path / 'p.csv'} cannot be written: No space left on device" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_appears_meanwhile_is_kept(tmp_path, monkeypatch, has_links):
    def refuse(*arguments):
        raise PermissionError(1, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr(_output.os, "link", refuse)
    path = tmp_path / "p.txt"

    def race():
        with gio.atomic_output(path) as temporary:
            temporary.write_text("mine")
            path.write_text("theirs")

    assert "--overwrite" in error_of(race)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("p.txt", "theirs")]
    path.unlink()
    with gio.atomic_output(path) as temporary:
        temporary.write_text("mine")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("p.txt", "mine")]


def test_the_file_is_flushed_and_then_its_folder(tmp_path, flushed):
    for overwrite in (False, True):
        gio.write_table(tmp_path / "p.csv", gio.Table.of(np.ones((1, 1))), overwrite=overwrite)
        assert [stat.S_ISREG(mode) for mode in flushed] == [True, False]
        flushed.clear()


def test_the_temporary_file_is_beside_the_target_with_its_suffix(tmp_path):
    with gio.atomic_output(tmp_path / "p.tar.parquet") as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".parquet"
        assert not (tmp_path / "p.tar.parquet").exists()
    assert (tmp_path / "p.tar.parquet").exists()


def test_a_writer_that_replaces_its_file(tmp_path):
    with gio.atomic_output(tmp_path / "p.txt") as temporary:
        temporary.unlink()
        temporary.write_text("new")
    assert (tmp_path / "p.txt").read_text() == "new"

    def lose():
        with gio.atomic_output(tmp_path / "q.txt") as temporary:
            temporary.unlink()

    assert "q.txt cannot be written" in error_of(lose)


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
def test_permissions_are_those_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        gio.write_table(tmp_path / "p.csv", gio.Table.of(np.ones((1, 1))))
        gio.write_table(tmp_path / "p.csv", gio.Table.of(np.ones((1, 1))), overwrite=True)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "p.csv").stat().st_mode) == 0o640


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
def test_links_are_followed_to_files_but_nothing_else_is_replaced(tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    target = written(real, "p.csv", "old")
    link = tmp_path / "link.csv"
    link.symlink_to(target)
    gio.write_table(link, gio.Table.of(np.ones((1, 1))), overwrite=True)
    assert link.is_symlink()
    assert target.read_text() == "1.0\n"
    (tmp_path / "dangling.csv").symlink_to(real / "new.csv")
    gio.write_table(tmp_path / "dangling.csv", gio.Table.of(np.ones((1, 1))))
    assert (real / "new.csv").read_text() == "1.0\n"
    (tmp_path / "folder.csv").symlink_to(real)
    assert "is a folder" in error_of(gio.check_output, tmp_path / "folder.csv", overwrite=True)
    os.mkfifo(tmp_path / "pipe.csv")
    assert "not a regular file" in error_of(gio.check_output, tmp_path / "pipe.csv", overwrite=True)
    assert sorted(file.name for file in real.iterdir()) == ["new.csv", "p.csv"]


def test_outputs_need_a_folder(tmp_path):
    assert "no folder" in error_of(gio.check_output, tmp_path / "no" / "p.csv")
    assert "is a folder" in error_of(gio.check_output, tmp_path, overwrite=True)
    written(tmp_path, "file", "")
    assert "no folder" in error_of(gio.check_output, tmp_path / "file" / "p.csv")
    assert "cannot be written" in error_of(gio.check_output, tmp_path / ("n" * 300 + ".csv"))
    assert gio.check_output(tmp_path / "p.csv") == Path(os.path.realpath(tmp_path)) / "p.csv"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@bound_by_permissions
def test_read_only_folder(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    try:
        assert "not writable" in error_of(gio.check_output, folder / "p.csv")
    finally:
        folder.chmod(0o755)


# Tables


def test_tables_refuse_what_does_not_fit():
    table = gio.Table.of(np.zeros((2, 2)), ["x", "y"])
    for call, part in (
        (lambda: gio.Table.of(np.zeros(2)), "two dimensions"),
        (lambda: gio.Table.of(np.zeros((2, 2)), ["x"]), "1 names"),
        (lambda: table.with_values(np.zeros((2, 3))), "(2, 3)"),
        (lambda: table.with_column("l", np.zeros(3)), "2 rows"),
        (lambda: table.with_column("x", np.zeros(2)), "'x' already"),
        (lambda: gio.write_array("p.npy", np.zeros((1, 1, 1)), name="a"), "(1, 1, 1)"),
        (lambda: gio.write_array("p.npy", np.array(["a"]), name="a"), "numbers"),
    ):
        with pytest.raises(ValueError, match=re.escape(part)):
            call()


@pytest.mark.parametrize("module", ["", "._table", "._output"])
def test_docstring_examples(module):
    result = doctest.testmod(importlib.import_module(f"gaussian_transform.io{module}"), optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0
