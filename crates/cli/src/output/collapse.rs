//! What `move --collapse` collapsed into huge pages.

use std::fmt::Write as _;

use nodeward_model::units::{format_bytes, format_ns};
use nodeward_mover::CollapseReport;
use serde_json::{Map, Value, json};

/// Formats a report for people.
pub fn text(report: &CollapseReport) -> String {
    let size = format_bytes(report.part_bytes);
    let before = match report.already_huge {
        Some(0) => String::new(),
        Some(parts) => format!("; {parts} were huge before"),
        None => "; those that were huge before are among them".to_owned(),
    };
    let mut text = format!(
        "collapsed {} parts of {size} into huge pages in {}{before}\n",
        report.collapsed,
        format_ns(report.took_ns)
    );
    let mut line = |parts: u64, name: &str, advice: &str| {
        if parts > 0 {
            let _ = writeln!(text, "    {name:<14}{parts:>10}: {advice}");
        }
    };
    line(report.mixed, "mixed", "pages are absent, shared, or on another node");
    line(report.elsewhere, "elsewhere", "collapsed, and freed or moved right afterwards");
    for (reason, &parts) in &report.refused {
        line(parts, reason.name(), reason.advice());
    }
    if report.interrupted {
        text += "    interrupted: the same command collapses the rest\n";
    }
    if let Some(error) = &report.error {
        let _ = writeln!(text, "    ended early: {error}");
    }
    text
}

/// Formats a report for programs.
pub fn json(report: &CollapseReport) -> Value {
    let refused =
        report.refused.iter().map(|(reason, &parts)| (reason.name().into(), parts.into()));
    json!({
        "part_bytes": report.part_bytes,
        "collapsed": report.collapsed,
        "already_huge": report.already_huge,
        "mixed": report.mixed,
        "elsewhere": report.elsewhere,
        "refused": refused.collect::<Map<String, Value>>(),
        "took_ns": report.took_ns,
        "interrupted": report.interrupted,
        "error": report.error.as_ref().map(ToString::to_string),
    })
}

#[cfg(test)]
mod tests {
    use nodeward_machine::CollapseRefusal;

    use super::*;

    /// Goal: of 40 parts each is told once, with what to do about those that stayed; who may not
    /// see frame numbers is told what that means.
    #[test]
    fn each_part_is_told() {
        let report = CollapseReport {
            part_bytes: 2 << 20,
            collapsed: 30,
            already_huge: Some(2),
            mixed: 4,
            elsewhere: 1,
            refused: [(CollapseRefusal::NoHugePage, 2), (CollapseRefusal::Held, 1)].into(),
            took_ns: 12_000_000,
            interrupted: true,
            error: None,
        };
        insta::assert_snapshot!(text(&report));
        insta::assert_snapshot!(format!("{:#}", json(&report)));
        let hidden = CollapseReport { already_huge: None, ..CollapseReport::default() };
        assert!(text(&hidden).contains("huge before are among them"));
    }
}
