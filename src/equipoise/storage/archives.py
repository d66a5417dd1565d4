"""Unpacking of untrusted archives of samples, once, into the cache."""

import gzip
import hashlib
import lzma
import os
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

import msgspec

from equipoise.errors import EquipoiseError, InvalidInputError, readable, reason
from equipoise.storage.files import DAMAGE, cache_folder, remove_abandoned_folders, scratch_folder

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".zip")
LIMIT_BYTES = 64 * 2**30
LIMIT_MEMBERS = 2_000_000
SCRATCH = ".partial-"
LONGEST_NOTES = 2**20
NOTES = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
"""Types of tar members that are headers for the next member, not files."""

BROKEN = (tarfile.TarError, lzma.LZMAError, gzip.BadGzipFile, *DAMAGE)


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Return whether :func:`unpack` supports an archive of this name."""
    return Path(path).name.lower().endswith(SUFFIXES)


def unpack(
    archive: str | os.PathLike[str], *, limit_bytes: int = LIMIT_BYTES, limit_members: int = LIMIT_MEMBERS
) -> Path:
    """Return the folder with an archive's files, unpacking it into the cache on first use.

    Only regular files and folders inside the archive are unpacked. Links, devices and names that lead out of the folder
    are refused, as are more than ``limit_bytes`` or ``limit_members``. An interrupted call leaves nothing, and the
    next call removes what a killed one left. An archive is unpacked again if it has changed, or if the number of files
    or bytes in its folder has.
    """
    path = Path(archive)
    if not is_archive(path):
        raise InvalidInputError(f"an archive must end in one of {', '.join(SUFFIXES)}, got {path.name!r}.")
    with readable(f"the archive {str(path)!r}", "check the path"):
        found = path.stat()
    key = hashlib.blake2b(digest_size=5)
    key.update(os.fsencode(path.resolve()) + f"\n{found.st_size}\n{found.st_mtime_ns}\n{found.st_ctime_ns}".encode())
    target = cache_folder() / "unpacked" / f"{path.name.split('.')[0]}-{key.hexdigest()}"
    remove_abandoned_folders(target.parent, SCRATCH)
    if not _is_whole(target):
        with _scratch(target.parent) as scratch:
            _unpack_into(scratch, path, target, _Limits(path.name, limit_bytes, limit_members))
    return target


def _is_whole(target: Path) -> bool:
    """Return whether a folder's content matches the record beside it."""
    try:
        stored = msgspec.json.decode(_record(target).read_bytes(), type=_Content)
        return target.is_dir() and stored == _Content.of(target)
    except (OSError, ValueError):
        return False


def _record(target: Path) -> Path:
    return target.with_name(f".{target.name}.json")


class _Content(msgspec.Struct):
    """The number of files and bytes in an unpacked folder, stored in the record beside it."""

    files: int
    bytes: int

    @classmethod
    def of(cls, folder: Path) -> "_Content":
        sizes = [os.lstat(os.path.join(place, name)).st_size for place, _, names in os.walk(folder) for name in names]
        return cls(len(sizes), sum(sizes))


@dataclass
class _Limits:
    """Bytes and files that an archive may still write."""

    archive: str
    bytes_left: int
    members_left: int

    def admit(self, size: int) -> None:
        self.bytes_left -= size
        self.members_left -= 1
        if self.bytes_left < 0 or self.members_left < 0:
            what = "bytes" if self.bytes_left < 0 else "files"
            raise InvalidInputError(
                f"{self.archive!r} would unpack to more {what} than the limit allows; unpack it yourself and pass "
                "the folder."
            )

    def refuse(self, member: str, why: str) -> InvalidInputError:
        return InvalidInputError(
            f"{self.archive!r} is not unpacked because its member {member!r} {why}; check where it comes from."
        )


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    with ExitStack() as stack:
        try:
            parent.mkdir(parents=True, exist_ok=True)
            scratch = stack.enter_context(scratch_folder(parent, SCRATCH))
        except OSError as error:
            raise InvalidInputError(
                f"{str(parent)!r} cannot be written ({reason(error)}); set EQUIPOISE_CACHE to a folder that can."
            ) from error
        yield scratch


def _unpack_into(scratch: Path, path: Path, target: Path, limits: _Limits) -> None:
    """Unpack into a scratch folder, then rename it: other processes see the whole folder or none."""
    files = scratch / "files"
    try:
        files.mkdir()
        (_unzip if path.name.lower().endswith(".zip") else _untar)(path, files, limits)
        files.chmod(0o755)  # the cache may be shared
        _put(files, target, scratch)
    except EquipoiseError:
        raise
    except BROKEN as error:
        raise InvalidInputError(f"{str(path)!r} is damaged ({reason(error)}); fetch it again.") from error
    except OSError as error:
        raise InvalidInputError(f"{str(path)!r} cannot be unpacked: {reason(error)}.") from error


def _put(files: Path, target: Path, scratch: Path) -> None:
    """Write the record before the folder, since readers look for it there; the old folder goes with the scratch."""
    (scratch / "record").write_bytes(msgspec.json.encode(_Content.of(files)))
    (scratch / "record").replace(_record(target))
    if target.is_dir() and not _is_whole(target):
        with suppress(FileNotFoundError):  # another process removed it first
            target.rename(scratch / "old")
    try:
        files.rename(target)
    except OSError:
        if not target.is_dir():  # otherwise another process was faster, with the same files
            raise


def _untar(path: Path, folder: Path, limits: _Limits) -> None:
    def admitted(member: tarfile.TarInfo, where: str) -> tarfile.TarInfo | None:
        if not (member.isreg() or member.isdir()):
            raise limits.refuse(member.name, "is a link or a device")
        limits.admit(member.size)
        try:
            return tarfile.data_filter(member, where)
        except tarfile.FilterError as error:
            raise limits.refuse(member.name, "leads out of its folder") from error

    with tarfile.open(path, "r:*", tarinfo=_Member) as tar:
        tar.extractall(folder, members=_in_order(tar), filter=admitted)


class _Member(tarfile.TarInfo):
    """A tar member with bounded names and headers: tarfile reads them into memory before their size can be checked."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_Member":
        found = super().frombuf(buf, encoding, errors)
        if found.type in NOTES and found.size > LONGEST_NOTES:
            raise InvalidInputError(
                f"the archive has a member whose name or notes take {found.size:,} bytes; check where it comes from."
            )
        return found


def _in_order(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield members in the stream's order without the list that tarfile keeps, which would grow with the archive."""
    while (member := tar.next()) is not None:
        yield member
        tar.members = []  # type: ignore[attr-defined]


def _unzip(path: Path, folder: Path, limits: _Limits) -> None:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            given, name = member.filename, member.filename.replace("\\", "/")
            place = PurePosixPath(name)
            if not name:
                raise limits.refuse(given, "has no name")
            if place.is_absolute() or ".." in place.parts or PureWindowsPath(name).drive:  # zipfile alters the name
                raise limits.refuse(given, "leads out of its folder")
            if stat.S_ISLNK(member.external_attr >> 16):
                raise limits.refuse(given, "is a link or a device")
            limits.admit(member.file_size)
            member.filename = name
            try:
                archive.extract(member, folder)
            except RuntimeError as error:  # encrypted, or compressed by a method unknown to Python
                raise limits.refuse(given, f"cannot be read ({reason(error)})") from error
