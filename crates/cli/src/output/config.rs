//! Settings with their origins.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use nodeward_model::Escape as _;
use serde_json::{Value, json};

use super::put_name;
use crate::settings::{Origin, Said};

/// Column of the origins, as far as values leave room.
const ORIGINS_AT: usize = 36;

/// Formats settings as a settings file, with origins as comments.
pub fn text(said: &[Said], files: &[(PathBuf, bool)]) -> String {
    let mut text = String::new();
    for (path, was_read) in files {
        let state = if *was_read { "read" } else { "not there" };
        let _ = writeln!(text, "# {}: {state}", path.escaped());
    }
    if said.is_empty() {
        text += "# nothing is set; --effective prints the defaults\n";
    }
    let mut table = "";
    for Said { key, value, origin } in said {
        if key.table != table {
            table = &key.table;
            let _ = writeln!(text, "\n[{table}]");
        }
        let setting = format!("{} = {value}", key.name);
        let _ = writeln!(text, "{setting:ORIGINS_AT$}  # {origin}");
    }
    text
}

/// Formats settings for programs.
pub fn json(said: &[Said], files: &[(PathBuf, bool)]) -> Value {
    let settings: Vec<Value> = said.iter().map(one).collect();
    let file =
        |(path, was_read): &(PathBuf, bool)| with_path(json!({ "was_read": was_read }), path);
    let files: Vec<Value> = files.iter().map(file).collect();
    json!({ "schema": "nodeward.config/1", "files": files, "settings": settings })
}

fn with_path(mut told: Value, path: &Path) -> Value {
    put_name(&mut told, "path", &path.into());
    told
}

fn one(said: &Said) -> Value {
    json!({
        "key": said.key.to_string(),
        "value": said.value,
        "origin": match &said.origin {
            Origin::Typed => json!({ "kind": "typed" }),
            Origin::Environment(variable) => {
                json!({ "kind": "environment", "variable": variable })
            }
            Origin::User { path, line } => {
                with_path(json!({ "kind": "user", "line": line }), path)
            }
            Origin::System { path, line } => {
                with_path(json!({ "kind": "system", "line": line }), path)
            }
            Origin::Default => json!({ "kind": "default" }),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Source;

    /// Goal: the printed text is a settings file with the same values.
    #[test]
    fn the_text_is_a_settings_file() {
        let defaults = Source::defaults();
        let text = text(&defaults.said, &[("/etc/nodeward.toml".into(), false)]);
        let place = |path, line| Origin::System { path, line };
        let again = Source::file(&text, "x".as_ref(), place).unwrap();
        assert_eq!(again.layer, defaults.layer);
        insta::assert_snapshot!(text);
    }

    /// Goal: JSON has each origin by its parts.
    #[test]
    fn origins_as_json() {
        let said = |value: &str, origin| {
            let mut said = Source::defaults().said.remove(0);
            (said.value, said.origin) = (value.into(), origin);
            one(&said)
        };
        let path = || PathBuf::from("/x");
        let all = [
            Origin::Typed,
            Origin::Environment("NODEWARD_MOVE_JOBS".to_owned()),
            Origin::User { path: path(), line: 2 },
            Origin::System { path: path(), line: 3 },
            Origin::Default,
        ];
        let lines = all.map(|origin| said("4", origin).to_string());
        insta::assert_snapshot!(lines.join("\n"));
    }
}
