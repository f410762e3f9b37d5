//! The rows of SPEC.md. Every Markdown table whose first column is headed `id` contains promises,
//! so that the file may have one table for each area; other tables are prose.

use std::collections::BTreeMap;

use super::bound::Bound;
use super::host;

const COLUMNS: [&str; 4] = ["id", "promise", "bound", "command"];

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise {
    /// Begins with its area and a dot: `move.two-workers`.
    pub id: String,
    pub promise: String,
    pub bound: Bound,
    /// Condition on memcpy for hosts to which this promise applies; `None` if it applies to all.
    pub memcpy: Option<Bound>,
    /// Argument of `sh -c`, run in the root of the repository.
    pub command: String,
    /// Its line in SPEC.md.
    pub line: usize,
}

impl Promise {
    /// Returns the part of the id before the first dot.
    pub fn area(&self) -> &str {
        self.id.split('.').next().unwrap_or(&self.id)
    }
}

/// Parses all promises, or returns every fault as `SPEC.md:LINE: what to do`.
pub fn parse(text: &str) -> Result<Vec<Promise>, Vec<String>> {
    let mut promises = Vec::new();
    let mut faults = Vec::new();
    for (line, cells) in rows(text) {
        match promise(line, &cells) {
            Ok(promise) => promises.push(promise),
            Err(fault) => faults.push(format!("SPEC.md:{line}: {fault}")),
        }
    }
    faults.extend(doubles(&promises));
    if faults.is_empty() { Ok(promises) } else { Err(faults) }
}

/// Returns the body rows of the tables of promises, each with its line number.
fn rows(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut rows = Vec::new();
    let mut inside = false;
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        let Some(cells) = cells(line).filter(|_| !fenced) else {
            inside = false;
            continue;
        };
        if cells[0] == COLUMNS[0] {
            inside = true;
        } else if inside && !is_rule(&cells) {
            rows.push((index + 1, cells));
        }
    }
    rows
}

/// Returns the cells of a table line; `\|` stands for a bar inside a cell.
fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?;
    let hidden = inner.replace("\\|", "\u{0}");
    let inner = hidden.strip_suffix('|').unwrap_or(&hidden);
    Some(inner.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect())
}

fn is_rule(cells: &[String]) -> bool {
    cells.iter().all(|cell| !cell.is_empty() && cell.chars().all(|c| matches!(c, '-' | ':')))
}

fn promise(line: usize, cells: &[String]) -> Result<Promise, String> {
    let [id, promise, bound, command] = cells else {
        return Err(format!(
            "{} cells where {} are wanted ({}); write a bar inside a cell as `\\|`",
            cells.len(),
            COLUMNS.len(),
            COLUMNS.join(" | ")
        ));
    };
    let (id, command) = (bare(id), bare(command));
    check_id(id)?;
    for (name, cell) in [("promise", promise.as_str()), ("command", command)] {
        if cell.is_empty() {
            return Err(format!("`{id}` has an empty {name}; fill the cell"));
        }
    }
    let (bound, memcpy) = bounds(bare(bound))?;
    let (id, promise, command) = (id.into(), promise.clone(), command.into());
    Ok(Promise { id, promise, bound, memcpy, command, line })
}

/// Parses a bound, and after `if memcpy` the condition on hosts.
fn bounds(text: &str) -> Result<(Bound, Option<Bound>), String> {
    let Some((bound, memcpy)) = text.split_once(" if memcpy ") else {
        return Ok((Bound::parse(text)?, None));
    };
    let memcpy = Bound::parse(memcpy)?;
    if memcpy.unit.as_deref() != Some(host::UNIT) {
        return Err(format!("bound `{text}` limits memcpy, but not in {}", host::UNIT));
    }
    Ok((Bound::parse(bound)?, Some(memcpy)))
}

fn check_id(id: &str) -> Result<(), String> {
    let part = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    if id.contains('.') && id.split('.').all(part) {
        return Ok(());
    }
    Err(format!("id `{id}` is not `area.name` of lower-case letters, digits and `-`"))
}

/// Returns the cell without the backticks that make it code.
fn bare(cell: &str) -> &str {
    cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`')).unwrap_or(cell)
}

fn doubles(promises: &[Promise]) -> Vec<String> {
    let mut seen = BTreeMap::new();
    let mut faults = Vec::new();
    for Promise { id, line, .. } in promises {
        if let Some(first) = seen.insert(id, line) {
            faults
                .push(format!("SPEC.md:{line}: id `{id}` stands at line {first} too; rename one"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# x\n\n| id | promise | bound | command |\n|----|:--|--|--:|\n";

    fn one(row: &str) -> Result<Vec<Promise>, Vec<String>> {
        parse(&format!("{HEAD}{row}\n"))
    }

    #[test]
    fn a_row_is_a_promise() {
        let all = one(r"| `move.fast` | is fast | `>= 2 GB/s` | `a \| tail -1` |").unwrap();
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].id.as_str(), all[0].area(), all[0].line), ("move.fast", "move", 5));
        assert_eq!((all[0].promise.as_str(), all[0].command.as_str()), ("is fast", "a | tail -1"));
        assert_eq!(all[0].bound.unit.as_deref(), Some("GB/s"));
    }

    #[test]
    fn a_promise_may_be_for_some_hosts() {
        let all = one("| a.b | p | >= 0.5 ms if memcpy < 10 GB/s | c |").unwrap();
        assert_eq!(all[0].bound, Bound::parse(">= 0.5 ms").unwrap());
        assert_eq!(all[0].memcpy, Some(Bound::parse("< 10 GB/s").unwrap()));
        let faults = one("| a.b | p | >= 0.5 if memcpy < 10 | c |").unwrap_err();
        assert!(faults[0].contains("limits memcpy, but not in GB/s"), "{faults:?}");
    }

    #[test]
    fn other_tables_and_fences_are_prose() {
        let text = "| field | meaning |\n|--|--|\n| a | b |\n\n```\n| id | x |\n| y | z |\n```\n";
        assert_eq!(parse(text), Ok(Vec::new()));
    }

    #[test]
    fn two_tables_are_one_list() {
        let row = "| a.b | p | > 1 | true |\n";
        let text = format!("{HEAD}{row}\nprose\n\n{HEAD}{}", row.replace("a.b", "c.d"));
        let ids: Vec<_> = parse(&text).unwrap().into_iter().map(|p| p.id).collect();
        assert_eq!(ids, ["a.b", "c.d"]);
    }

    #[test]
    fn each_fault_names_its_line_and_all_are_told() {
        let rows =
            "| a | p | > 1 | c |\n| a.b | p | > 1 |\n| a.c | p | soon | c |\n| a.d | p | > 1 | |";
        let faults = one(rows).unwrap_err();
        let starts =
            ["SPEC.md:5: id `a`", "SPEC.md:6: 3 cells", "SPEC.md:7: bound", "SPEC.md:8: `a.d`"];
        assert_eq!(faults.len(), starts.len());
        for (fault, start) in faults.iter().zip(starts) {
            assert!(fault.starts_with(start), "{fault}");
        }
    }

    #[test]
    fn an_id_stands_once() {
        let row = "| a.b | p | > 1 | c |";
        let faults = one(&format!("{row}\n{row}")).unwrap_err();
        assert_eq!(faults, ["SPEC.md:6: id `a.b` stands at line 5 too; rename one"]);
    }
}
