//! Rules about the documents that a newcomer reads first.

use std::path::Path;

use super::Violation;

/// The map in ARCHITECTURE.md has a line for every member of the workspace.
pub fn check_map(text: Option<&str>, dirs: &[&Path]) -> Vec<Violation> {
    let path = Path::new("ARCHITECTURE.md");
    let Some(text) = text else {
        return vec![Violation::new(path, 0, "is missing; it holds the map of the crates")];
    };
    let stands = |dir: &Path| text.lines().any(|l| l.contains(&format!("`{}`", dir.display())));
    let missing = dirs.iter().filter(|dir| !stands(dir));
    let advice = |dir: &Path| format!("the map has no line for `{}`; add one", dir.display());
    missing.map(|dir| Violation::new(path, 0, advice(dir))).collect()
}

/// The README leads to the demo and to the tests.
pub fn check_readme(text: Option<&str>) -> Vec<Violation> {
    let path = Path::new("README.md");
    let text = text.unwrap_or_default();
    let missing = ["make demo", "make test"].into_iter().filter(|words| !text.contains(words));
    missing.map(|words| Violation::new(path, 0, format!("does not mention `{words}`"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_stands_in_the_map() {
        let dirs = [Path::new("crates/model"), Path::new("lab")];
        assert_eq!(check_map(Some("- `crates/model`: nouns\n- `lab`: kernels\n"), &dirs), []);
        assert_eq!(check_map(Some("- `crates/model`: nouns\n- lab\n"), &dirs).len(), 1);
        assert_eq!(check_map(None, &dirs).len(), 1);
    }

    #[test]
    fn the_readme_leads_to_demo_and_tests() {
        assert_eq!(check_readme(Some("`make demo`, `make test`")), []);
        assert_eq!(check_readme(Some("`make test`")).len(), 1);
        assert_eq!(check_readme(None).len(), 2);
    }
}
