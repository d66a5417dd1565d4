"""Faces: found, aligned, verified."""

from equipoise.paper.faces.aligned_folder import Alignment, align_folder
from equipoise.paper.faces.alignment import aligned
from equipoise.paper.faces.mtcnn import MTCNN, load_mtcnn
from equipoise.paper.faces.search import find_faces

__all__ = ["MTCNN", "Alignment", "align_folder", "aligned", "find_faces", "load_mtcnn"]
