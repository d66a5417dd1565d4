"""Faces: found, aligned, verified."""

from equipoise.faces.alignment import aligned
from equipoise.faces.folder import Alignment, align_folder
from equipoise.faces.mtcnn import MTCNN, load_mtcnn
from equipoise.faces.search import find_faces

__all__ = ["MTCNN", "Alignment", "align_folder", "aligned", "find_faces", "load_mtcnn"]
