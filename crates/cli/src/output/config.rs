//! Settings with their origins, as a settings file and as JSON.

use std::fmt::Write as _;
use std::path::Path;

use nodeward_model::Escape as _;
use serde_json::{Value, json};

use super::put_name;
use crate::settings::{FileState, SearchedFile, SettingOrigin, SettingValue};

/// Column of the origins, as far as values leave room.
const ORIGINS_AT: usize = 36;

/// Formats settings as a settings file, with origins as comments.
pub fn text(said: &[SettingValue], files: &[SearchedFile]) -> String {
    let mut text = String::new();
    for SearchedFile { path, state } in files {
        let state = match state {
            FileState::Read => "read",
            FileState::Absent => "not there",
            FileState::Unreadable => "may not be read",
        };
        let _ = writeln!(text, "# {}: {state}", path.escaped());
    }
    if said.is_empty() {
        text += "# nothing is set; --effective prints the defaults\n";
    }
    let mut table = "";
    for SettingValue { key, value, origin } in said {
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
pub fn json(said: &[SettingValue], files: &[SearchedFile]) -> Value {
    let settings: Vec<Value> = said.iter().map(setting_json).collect();
    let file = |file: &SearchedFile| {
        with_path(json!({ "was_read": file.state == FileState::Read }), &file.path)
    };
    let files: Vec<Value> = files.iter().map(file).collect();
    json!({ "schema": "nodeward.config/1", "files": files, "settings": settings })
}

fn with_path(mut told: Value, path: &Path) -> Value {
    put_name(&mut told, "path", &path.into());
    told
}

fn setting_json(said: &SettingValue) -> Value {
    json!({
        "key": said.key.to_string(),
        "value": said.value,
        "origin": match &said.origin {
            SettingOrigin::CommandLine => json!({ "kind": "typed" }),
            SettingOrigin::Environment(variable) => {
                json!({ "kind": "environment", "variable": variable })
            }
            SettingOrigin::User { path, line } => {
                with_path(json!({ "kind": "user", "line": line }), path)
            }
            SettingOrigin::System { path, line } => {
                with_path(json!({ "kind": "system", "line": line }), path)
            }
            SettingOrigin::Default => json!({ "kind": "default" }),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::source::SettingsSource;

    /// Goal: the printed text is a settings file with the same values.
    #[test]
    fn the_text_is_a_settings_file() {
        let defaults = SettingsSource::defaults();
        let file = SearchedFile { path: "/etc/nodeward.toml".into(), state: FileState::Absent };
        let text = text(&defaults.values, &[file]);
        let place = |path, line| SettingOrigin::System { path, line };
        let again = SettingsSource::from_file(&text, "x".as_ref(), place).unwrap();
        assert_eq!(again.layer, defaults.layer);
        insta::assert_snapshot!(text);
    }

    /// Goal: JSON has each origin by its parts.
    #[test]
    fn origins_as_json() {
        let said = |value: &str, origin| {
            let mut said = SettingsSource::defaults().values.remove(0);
            (said.value, said.origin) = (value.into(), origin);
            setting_json(&said)
        };
        let path = || std::path::PathBuf::from("/x");
        let all = [
            SettingOrigin::CommandLine,
            SettingOrigin::Environment("NODEWARD_MOVE_JOBS".to_owned()),
            SettingOrigin::User { path: path(), line: 2 },
            SettingOrigin::System { path: path(), line: 3 },
            SettingOrigin::Default,
        ];
        let lines = all.map(|origin| said("4", origin).to_string());
        insta::assert_snapshot!(lines.join("\n"));
    }
}
