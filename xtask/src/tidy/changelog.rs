//! CHANGELOG.md follows the format of <https://keepachangelog.com>, with `Internals` as an
//! additional section.

use std::path::Path;

use super::violation::Violation;

const SECTIONS: &[&str] =
    &["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Internals"];

/// Checks the rule.
pub fn check(text: Option<&str>) -> Vec<Violation> {
    let path = Path::new("CHANGELOG.md");
    let Some(text) = text else {
        return vec![Violation::new(path, 0, "is missing; users read it")];
    };
    let faults = faults(text).into_iter();
    faults.map(|(line, advice)| Violation::new(path, line, advice)).collect()
}

fn faults(text: &str) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    if text.lines().next() != Some("# Changelog") {
        faults.push((1, "begin with `# Changelog`".to_owned()));
    }
    let versions = headings(text, "## ");
    if versions.first().map(|(_, title)| *title) != Some("[Unreleased]") {
        faults.push((0, "the first version is `## [Unreleased]`".to_owned()));
    }
    for (line, title) in versions.iter().skip(1).filter(|(_, title)| !is_version(title)) {
        faults.push((*line, format!("`{title}` is not `[X.Y.Z] - YYYY-MM-DD`")));
    }
    for (line, title) in headings(text, "### ") {
        if !SECTIONS.contains(&title) {
            faults.push((line, format!("`{title}` is none of {}", SECTIONS.join(", "))));
        }
    }
    faults
}

fn headings<'a>(text: &'a str, mark: &str) -> Vec<(usize, &'a str)> {
    let lines = text.lines().enumerate();
    lines.filter_map(|(index, line)| Some((index + 1, line.strip_prefix(mark)?.trim()))).collect()
}

/// `[0.1.0] - 2026-08-01`
fn is_version(title: &str) -> bool {
    let Some((version, date)) = title.split_once(" - ") else { return false };
    let Some(version) = version.strip_prefix('[').and_then(|v| v.strip_suffix(']')) else {
        return false;
    };
    let numbers = |text: &str, mark, widths: [Option<usize>; 3]| {
        let parts: Vec<&str> = text.split(mark).collect();
        let fits = |(part, width): (&&str, Option<usize>)| {
            part.parse::<u32>().is_ok() && width.is_none_or(|width| part.len() == width)
        };
        parts.len() == 3 && parts.iter().zip(widths).all(fits)
    };
    numbers(version, '.', [None; 3]) && numbers(date, '-', [Some(4), Some(2), Some(2)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape() {
        let good = "# Changelog\n\n## [Unreleased]\n\n### Added\n- a\n\n## [0.1.0] - 2026-08-01\n";
        assert_eq!(faults(good), []);
    }

    #[test]
    fn each_fault_has_its_line() {
        let bad = "# Changes\n## [Unreleased]\n### News\n## 0.1.0\n## [0.1] - 2026-08-01\n";
        let lines: Vec<usize> = faults(bad).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 4, 5, 3]);
        assert_eq!(faults("# Changelog\n").len(), 1);
    }
}
