//! The page of `report`: one file that needs nothing else.
//!
//! It has no script and no reference to anything outside, and forbids both to the browser. Every
//! section has its words first, then a picture, and the values of the picture as a table.

mod bands;
mod blocks;
mod chart;
mod decisions;
mod gain;
mod json;
mod machine;
mod markup;
mod memory;
mod moved;
mod scale;
mod summary;
mod terms;
#[cfg(test)]
mod tests;
mod unseen;

use crate::results::observation::WatchReport;
use bands::Bands;
use markup::{Element, element};
use moved::MovedMemory;

pub use json::json;
pub use summary::outcome;

/// The style sheet.
const STYLE: &str = include_str!("report.css");
/// Nothing is loaded, run or sent, whatever the page contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'";

/// Formats the page.
pub fn html(seen: &WatchReport) -> String {
    let title = summary::title(seen);
    let head = element("head")
        .child(element("meta").with("charset", "utf-8"))
        .child(
            element("meta").with("http-equiv", "Content-Security-Policy").with("content", POLICY),
        )
        .child(
            element("meta")
                .with("name", "viewport")
                .with("content", "width=device-width, initial-scale=1"),
        )
        .child(element("meta").with("name", "referrer").with("content", "no-referrer"))
        .child(element("title").text(&title))
        .child(element("style").style(STYLE));
    let page = element("html").with("lang", "en").child(head).child(body(seen));
    format!("<!DOCTYPE html>\n{page}")
}

fn body(seen: &WatchReport) -> Element {
    let bands = Bands::of(seen);
    let moved = MovedMemory::of(seen);
    let sections = [
        memory::section(seen, &bands, &moved),
        memory::locality(seen, &moved),
        memory::parts(seen, &bands),
        memory::threads(seen, &bands, &moved),
        moved.section(seen),
        decisions::section(seen),
        memory::stalls(seen),
        gain::section(seen, &bands),
        terms::section(seen),
        machine::section(seen),
        unseen::section(seen),
    ];
    let footer = element("footer").text(format!(
        "Written by nodeward {}, nodeward report. The page is one file without scripts; it loads \
         nothing and sends nothing.",
        env!("CARGO_PKG_VERSION")
    ));
    element("body")
        .child(element("header").children(summary::head(seen)))
        .child(
            element("main")
                .child(summary::figures(seen, &moved))
                .children(sections.into_iter().flatten()),
        )
        .child(footer)
}
