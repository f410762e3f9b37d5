//! Blocks that sections are made of.

use std::fmt::Display;

use super::markup::{Element, element};

/// Begins a section.
pub fn begin_section(title: &str) -> Element {
    element("section").child(element("h2").text(title))
}

/// Formats a paragraph.
pub fn paragraph(words: impl Display) -> Element {
    element("p").text(words)
}

/// Formats a legend: names with the classes that colour them.
pub fn legend(bands: &[(String, &'static str)]) -> Element {
    let item = |(name, class): &(String, &'static str)| {
        let key = element("span").class(format!("key {class}"));
        element("span").child(key).text(name)
    };
    element("p").class("legend").children(bands.iter().map(item))
}

/// Formats a table: each column with its heading, and whether it has numbers.
pub fn table(columns: &[(&str, bool)], rows: Vec<Vec<Element>>) -> Element {
    let class = |is_number: bool| if is_number { "number" } else { "left" };
    let heading = |&(title, is_number): &(&str, bool)| {
        element("th").with("scope", "col").class(class(is_number)).text(title)
    };
    let head = element("tr").children(columns.iter().map(heading));
    let row = |cells: Vec<Element>| element("tr").children(cells);
    let table = element("table")
        .child(element("thead").child(head))
        .child(element("tbody").children(rows.into_iter().map(row)));
    element("div").class("scroll").child(table)
}

/// Formats a cell.
pub fn cell(text: impl Display) -> Element {
    element("td").text(text)
}

/// Formats a cell with a number.
pub fn number(text: impl Display) -> Element {
    cell(text).class("number")
}

/// Formats a cell with a sentence.
pub fn words(text: impl Display) -> Element {
    cell(text).class("words")
}
