//! Rows as lines of a file: CSV, or one JSON object per line.

use std::path::Path;

use anyhow::{Result, bail};
use nodeward_model::Escape as _;
use serde_json::{Map, Value};

use super::measure::TRACE_HASH;
use super::plan::SweepRow;

/// The format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// Comma-separated cells, below a header line.
    Csv,
    /// One object per line.
    JsonLines,
}

impl RowFormat {
    /// Returns the format by a file's name.
    pub fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|end| end.to_str()) {
            Some("csv") => Ok(Self::Csv),
            Some("jsonl" | "json") => Ok(Self::JsonLines),
            _ => bail!("{}: expected a name that ends in .csv or .jsonl", path.escaped()),
        }
    }

    /// Returns the header line of a file, if the format has one.
    pub fn header(self, columns: &[String]) -> Option<String> {
        (self == Self::Csv).then(|| csv(columns))
    }

    /// Parses the header line; `None` if the format has none.
    pub fn names(self, header: &str) -> Option<Vec<String>> {
        (self == Self::Csv).then(|| parse_csv_line(header)).flatten()
    }

    /// Formats a row as a line.
    pub fn line(self, columns: &[String], row: &[String]) -> String {
        match self {
            Self::Csv => csv(row),
            Self::JsonLines => format!("{{{}}}", fields(columns, row)),
        }
    }

    /// Returns the beginning of a row's line, from its first cells.
    pub fn line_prefix(self, columns: &[String], cells: &[String]) -> String {
        match self {
            Self::Csv => format!("{},", csv(cells)),
            Self::JsonLines => format!("{{{},", fields(columns, cells)),
        }
    }

    /// Parses the cells of a line; `None` if it is not a row with these columns.
    pub fn cells(self, columns: &[String], line: &str) -> Option<SweepRow> {
        let row = match self {
            Self::Csv => parse_csv_line(line)?,
            Self::JsonLines => {
                let object: Map<String, Value> = serde_json::from_str(line).ok()?;
                columns.iter().map(|name| cell(object.get(name)?)).collect::<Option<_>>()?
            }
        };
        (row.len() == columns.len()).then_some(row)
    }
}

/// Returns a cell as JSON: a number where it is one.
pub fn value(name: &str, cell: &str) -> Value {
    let number = cell.parse::<u64>().ok().filter(|number| number.to_string() == cell);
    match number.filter(|_| name != TRACE_HASH) {
        _ if cell.is_empty() => Value::Null,
        Some(number) => number.into(),
        None => cell.into(),
    }
}

fn cell(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// Formats names and cells of an object, in the order of the columns.
fn fields(columns: &[String], row: &[String]) -> String {
    let field = |(name, cell): (&String, &String)| {
        format!("{}:{}", Value::from(name.as_str()), value(name, cell))
    };
    columns.iter().zip(row).map(field).collect::<Vec<_>>().join(",")
}

fn csv(cells: &[String]) -> String {
    let quoted = |cell: &String| match cell.contains([',', '"']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.clone(),
    };
    cells.iter().map(quoted).collect::<Vec<_>>().join(",")
}

/// Parses the cells of a line of CSV; `None` if its quotes are invalid.
fn parse_csv_line(line: &str) -> Option<SweepRow> {
    let mut cells = Vec::new();
    let mut rest = line;
    loop {
        let (cell, behind) = match rest.strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => {
                let (cell, behind) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                (cell.to_owned(), behind)
            }
        };
        cells.push(cell);
        match behind.strip_prefix(',') {
            Some(behind) => rest = behind,
            None => return behind.is_empty().then_some(cells),
        }
    }
}

/// Returns a cell up to its closing quote, and the text after it.
fn unquoted(mut rest: &str) -> Option<(String, &str)> {
    let mut cell = String::new();
    loop {
        let (part, behind) = rest.split_once('"')?;
        cell.push_str(part);
        match behind.strip_prefix('"') {
            Some(behind) => (cell.push('"'), rest = behind).1,
            None => return Some((cell, behind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn a_row_in_both_formats() {
        let columns = owned(&["point", "workload.a.nodes", "a.local_ppm", TRACE_HASH, "big"]);
        let row = owned(&["7", "\"0,1\"", "", "1234567890123456", "007"]);
        let csv = RowFormat::Csv.line(&columns, &row);
        assert_eq!(csv, r#"7,"""0,1""",,1234567890123456,007"#);
        let json = RowFormat::JsonLines.line(&columns, &row);
        let expected = r#"{"point":7,"workload.a.nodes":"\"0,1\"","a.local_ppm":null,"#;
        assert_eq!(
            json,
            format!("{expected}\"trace_hash\":\"1234567890123456\",\"big\":\"007\"}}")
        );
        assert_eq!(RowFormat::Csv.header(&columns).unwrap(), columns.join(","));
        assert_eq!(RowFormat::JsonLines.header(&columns), None);
    }

    /// Goal: a line that is incomplete or has other columns is not a row.
    #[test]
    fn what_is_no_row() {
        let columns = owned(&["a", "b"]);
        for line in ["", "1", "1,2,3", "\"1,2", "1,\"2\"3"] {
            assert_eq!(RowFormat::Csv.cells(&columns, line), None, "{line}");
        }
        for line in ["", "{\"a\":1", "{\"a\":1}", "[1,2]", "{\"a\":1,\"b\":[]}"] {
            assert_eq!(RowFormat::JsonLines.cells(&columns, line), None, "{line}");
        }
    }

    #[test]
    fn the_name_of_a_file_says_its_format() {
        let of = |name: &str| RowFormat::of(Path::new(name)).ok();
        assert_eq!(of("a.csv"), Some(RowFormat::Csv));
        assert_eq!(
            (of("a.jsonl"), of("a.json")),
            (Some(RowFormat::JsonLines), Some(RowFormat::JsonLines))
        );
        assert_eq!((of("a"), of("a.txt"), of("csv")), (None, None, None));
    }

    proptest! {
        /// Goal: a written row is read back, and its line begins as predicted.
        #[test]
        fn rows_come_back(row in prop::collection::vec("[a-z0-9,\"\\\\ \u{e4}]{0,6}", 3)) {
            let columns = owned(&["x", "y,\"z", TRACE_HASH]);
            for format in [RowFormat::Csv, RowFormat::JsonLines] {
                let line = format.line(&columns, &row);
                prop_assert!(line.starts_with(&format.line_prefix(&columns, &row[..2])));
                prop_assert_eq!(format.cells(&columns, &line), Some(row.clone()), "{}", line);
            }
        }
    }
}
