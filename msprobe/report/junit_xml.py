"""Elements of JUnit XML, which every report for a CI system is made of."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def add_case(suite: ET.Element, of_class: str, name: str) -> ET.Element:
    """Add a case to a suite and return it; a case without a result has passed."""
    return ET.SubElement(suite, "testcase", classname=of_class, name=xml_text(name))


def add_result(case: ET.Element, tag: str, kind: str, message: str, text: str = "") -> None:
    """Add a result to a case: ``tag`` is failure, error or skipped."""
    element = ET.SubElement(case, tag, message=xml_text(message))
    if kind:
        element.set("type", kind)
    if text:
        element.text = xml_text(text)


def document(root: ET.Element) -> bytes:
    """Return a report with the counts of its cases, as XML in UTF-8."""
    for suite in (*root, root):
        _set_counts(suite)
    ET.indent(root, " ")
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def xml_text(text: str) -> str:
    """Return a text with a replacement character for each one that XML cannot hold, even escaped."""
    return _NOT_XML.sub("\ufffd", text)


def _set_counts(suite: ET.Element) -> None:
    suite.set("tests", str(sum(1 for _ in suite.iter("testcase"))))
    for tag, title in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(title, str(sum(1 for _ in suite.iter(tag))))
