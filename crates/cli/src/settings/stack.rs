//! All sources of settings, in their order, and the files among them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use nodeward_files::read;
use nodeward_model::Escape as _;

use super::error::SettingsError;
use super::key::Variables;
use super::layer::SettingsLayer;
use super::source::{SettingOrigin, SettingValue, SettingsSource};

/// Maximum size of a settings file; a longer one is not read to its end.
const BYTES_MAX: u64 = 1 << 20;

/// The table of the groups.
const GROUPS: &str = "group";
/// The system's settings file.
const SYSTEM_FILE: &str = "/etc/nodeward.toml";

/// All sources, the highest first.
#[derive(Clone, Debug)]
pub struct SettingsStack {
    sources: Vec<SettingsSource>,
    /// The files that were searched.
    pub files: Vec<SearchedFile>,
}

/// A file that was searched for settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchedFile {
    /// Its path.
    pub path: PathBuf,
    /// What came of it.
    pub state: FileState,
}

/// What came of a file that was searched for settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// Its settings hold.
    Read,
    /// There is none.
    Absent,
    /// It is there, and this user may not read it.
    Unreadable,
}

impl SettingsStack {
    fn add(&mut self, path: &Path, found: Option<SettingsSource>) {
        let state = match &found {
            Some(_) => FileState::Read,
            None if path.exists() => FileState::Unreadable,
            None => FileState::Absent,
        };
        if state == FileState::Unreadable {
            say!("nodeward: {} may not be read, so its settings do not hold", path.escaped());
        }
        self.files.push(SearchedFile { path: path.to_owned(), state });
        self.sources.extend(found);
    }

    /// Returns the settings below the command line; each verb applies its arguments over them.
    pub fn merged_layer(&self) -> SettingsLayer {
        let layers = self.sources.iter().rev().map(|source| source.layer.clone());
        layers.fold(SettingsLayer::default(), |below, above| above.over(below))
    }

    /// Returns the value of each setting that a source sets, or of all settings with `defaults`, in
    /// the order of the packaged file; then the groups, which have no defaults.
    pub fn effective(&self, defaults: bool) -> Vec<SettingValue> {
        let groups = self.groups();
        let all = SettingsSource::defaults().values.into_iter();
        let by_somebody = |said: SettingValue| {
            let mut others = self.sources.iter().flat_map(|source| &source.values);
            let found = others.find(|other| other.key == said.key).cloned();
            found.or_else(|| defaults.then_some(said))
        };
        all.filter_map(by_somebody).chain(groups).collect()
    }

    /// Returns each group as the highest source has it, in the order of their names.
    fn groups(&self) -> Vec<SettingValue> {
        let mut found: BTreeMap<String, SettingValue> = BTreeMap::new();
        let all = self.sources.iter().flat_map(|source| &source.values);
        for group in all.filter(|value| value.key.table == GROUPS) {
            found.entry(group.key.name.clone()).or_insert_with(|| group.clone());
        }
        found.into_values().collect()
    }
}

/// The settings files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsPaths {
    /// The user's file, if the user has a home, and whether it must exist.
    pub user: Option<(PathBuf, bool)>,
    /// The system's file.
    pub system: PathBuf,
}

impl SettingsPaths {
    /// Finds them by the --config flag and the environment.
    pub fn find(flag: Option<&Path>, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let named = flag.map(Path::to_owned).or_else(|| path("NODEWARD_CONFIG"));
        let home = || path("HOME").map(|home| home.join(".config"));
        // The specification requires to ignore a relative path in this variable.
        let folder = path("XDG_CONFIG_HOME").filter(|path| path.is_absolute()).or_else(home);
        let usual = folder.map(|folder| (folder.join("nodeward/config.toml"), false));
        Self { user: named.map(|path| (path, true)).or(usual), system: SYSTEM_FILE.into() }
    }

    /// Finds them by the --config flag and our own environment.
    pub fn from_environment(flag: Option<&Path>) -> Self {
        Self::find(flag, |name| std::env::var_os(name))
    }

    /// Returns the settings below the command line, from these files and our own environment.
    ///
    /// # Errors
    /// As [`SettingsPaths::read`].
    pub fn read_layer(&self) -> Result<SettingsLayer, SettingsError> {
        Ok(self.read(&[], &std::env::vars_os().collect())?.merged_layer())
    }

    /// Returns the settings of one file alone, which must exist.
    ///
    /// # Errors
    /// If it does not, or is invalid.
    pub fn read_only(path: &Path) -> Result<SettingsLayer, SettingsError> {
        let found = file(path, &[], |path, line| SettingOrigin::User { path, line })?;
        Ok(found.map_or_else(SettingsLayer::default, |source| source.layer))
    }

    /// Reads all sources; `words` are KEY=VALUE that count as typed.
    ///
    /// # Errors
    /// If a named file does not exist, or a source is invalid.
    pub fn read(
        &self,
        words: &[(String, String)],
        variables: &Variables,
    ) -> Result<SettingsStack, SettingsError> {
        let mut stack = SettingsStack {
            sources: vec![
                SettingsSource::from_arguments(words)?,
                SettingsSource::from_environment(variables)?,
            ],
            files: Vec::new(),
        };
        if let Some((path, must_exist)) = &self.user {
            // A home that we may not enter (sudo -u) belongs to another user, and so do its
            // settings.
            let usual = [ErrorKind::NotFound, ErrorKind::PermissionDenied];
            let absence = if *must_exist { &[][..] } else { &usual };
            stack.add(path, file(path, absence, |path, line| SettingOrigin::User { path, line })?);
        }
        let system = |path, line| SettingOrigin::System { path, line };
        stack.add(&self.system, file(&self.system, &[ErrorKind::NotFound], system)?);
        Ok(stack)
    }
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Reads a file; `None` if it has one of the errors that mean that there are no settings.
fn file(
    path: &Path,
    absence: &[ErrorKind],
    place: fn(PathBuf, usize) -> SettingOrigin,
) -> Result<Option<SettingsSource>, SettingsError> {
    match read(path, BYTES_MAX).and_then(text) {
        Ok(text) => SettingsSource::from_file(&text, path, place).map(Some),
        Err(error) if absence.contains(&error.kind()) => Ok(None),
        Err(source) => Err(SettingsError::Read { path: path.into(), source }),
    }
}

#[cfg(test)]
mod tests {
    use nodeward_model::Escape as _;
    use nodeward_mover::Jobs;

    use super::*;
    use crate::settings::{BalanceLayer, MoveLayer, MoveSettings, ProcessArgs};

    const NOWHERE: fn(PathBuf, usize) -> SettingOrigin =
        |path, line| SettingOrigin::User { path, line };

    fn layer(text: &str) -> MoveLayer {
        toml::from_str::<SettingsLayer>(&format!("[move]\n{text}")).unwrap().moves
    }

    /// Goal: the file that we ship contains the defaults, for every key.
    #[test]
    fn the_sample_file_holds_the_defaults() {
        let SettingsLayer { moves: moving, balance, .. } = SettingsSource::defaults().layer;
        // A missing key leaves a gap, which shows as None.
        assert!(!format!("{moving:?} {balance:?}").contains(": None"), "{moving:?} {balance:?}");
        assert_eq!(MoveSettings::resolve(moving), MoveSettings::resolve(MoveLayer::default()));
        let none = BalanceLayer::default();
        assert_eq!(balance.resolve(true).unwrap(), none.resolve(true).unwrap());
        let nobody = ProcessArgs::default();
        assert_eq!(balance.process_filter(&nobody).unwrap(), none.process_filter(&nobody).unwrap());
    }

    /// Goal: each key is decided by the highest layer that has it, also when it lifts a limit.
    #[test]
    fn higher_layers_win_key_by_key() {
        let system = layer("jobs = 2\nrate = '1GB/s'\nstall = '1ms'");
        let user = layer("rate = '500MB/s'\nstall = 'unlimited'");
        let typed = layer("jobs = 'auto'");
        let settings = MoveSettings::resolve(typed.over(user).over(system));
        assert_eq!(settings.jobs, Jobs::Auto);
        assert_eq!(settings.rate_bytes_per_s, Some(500_000_000));
        assert_eq!(settings.stall_ns, None);
    }

    fn told(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodeward.toml");
        std::fs::write(&path, text).unwrap();
        let error = anyhow::Error::from(file(&path, &[], NOWHERE).unwrap_err());
        format!("{error:#}").replace(folder.path().to_str().unwrap(), "")
    }

    /// Goal: an error in a file is reported with its line and its key; nothing is silently ignored.
    #[test]
    fn mistakes_are_shown() {
        for (text, place, words) in [
            ("[move]\njob = 2", "line 2 (move.job)", "unknown field `job`"),
            ("\n[moves]\n", "line 2", "unknown field `moves`"),
            ("[move]\njobs = 0", "line 2 (move.jobs)", "from 1 to"),
            ("[move]\nrate = '5 parsec'", "line 2 (move.rate)", "a rate such as"),
            ("[move]\njobs = 2\nstall = 5", "line 3 (move.stall)", "a time such as"),
            ("[balance]\npin = 'no'", "line 2 (balance.pin)", "neither true nor false"),
            ("[balance]\nrivals = 'x'", "line 2 (balance.rivals)", "stand-back"),
            ("[balance]\nnames = [\n'a',\n[]]", "line 4 (balance.names)", ""),
            ("[balance]\nnames = 7", "line 2 (balance.names)", "an array such as"),
            ("[balance]\nname = 7", "line 2 (balance.name)", "`names`"),
            ("interval = '1s'", "line 1", "unknown field `interval`"),
            ("[balance\n", "line 1", ""),
        ] {
            let shown = told(text);
            let expected = format!("/nodeward.toml are wrong in {place}: ");
            assert!(shown.contains(words) && shown.contains(&expected), "{text}: {shown}");
        }
    }

    /// Goal: each value comes from the highest source that has one, which is named with its line.
    #[test]
    fn values_have_origins() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let user = write("user", "[balance]\ninterval = '3s'\nnames = ['a', 'b']\n");
        let system =
            write("system", "# x\n[move]\njobs = 3\n[balance]\nhorizon = '5s'\npin = true");
        let places = SettingsPaths { user: Some((user, true)), system };
        let variables = variables(&[("NODEWARD_BALANCE_PIN", "false")]);
        let typed = [("balance.interval".to_owned(), "2s".to_owned())];
        let stack = places.read(&typed, &variables).unwrap();
        let shown: Vec<_> = stack.effective(false).into_iter().map(shown).collect();
        assert_eq!(
            shown.join("\n").replace(folder.path().to_str().unwrap(), ""),
            "move.jobs = 3 (/system, line 3)\n\
             balance.interval = \"2s\" (typed)\n\
             balance.horizon = \"5s\" (/system, line 5)\n\
             balance.pin = \"false\" ($NODEWARD_BALANCE_PIN)\n\
             balance.names = [\"a\", \"b\"] (/user, line 3)"
        );
        let settings = stack.merged_layer().balance.resolve(true).unwrap();
        assert_eq!((settings.interval_ns, settings.pin), (2_000_000_000, false));
        assert_eq!(settings.rules.horizon_ns, 5_000_000_000);
        assert_eq!(stack.effective(true).len(), SettingsSource::defaults().values.len());
    }

    fn variables(set: &[(&str, &str)]) -> Variables {
        set.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn shown(SettingValue { key, value, origin }: SettingValue) -> String {
        format!("{key} = {value} ({origin})")
    }

    /// Goal: an old name sets the same value as the one in use, in each source, which wins where
    /// both are there.
    #[test]
    fn old_names_are_taken() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "[balance]\nlooking = '5ms'\n").unwrap();
        let places = SettingsPaths { user: Some((file, true)), system: "/nonexistent".into() };
        let stack = |typed: &[&str], set: &[(&str, &str)]| {
            let typed: Vec<_> =
                typed.iter().map(|name| ((*name).to_owned(), "6ms".to_owned())).collect();
            let stack = places.read(&typed, &variables(set)).unwrap();
            let shown: Vec<_> = stack.effective(false).into_iter().map(shown).collect();
            (shown.join(", "), stack.merged_layer().balance.resolve(true).unwrap().steady_ppm)
        };
        let (shown, ppm) = stack(&[], &[]);
        assert!(shown.starts_with("balance.cpu-budget = \"5ms\" ("), "{shown}");
        assert_eq!(ppm, 5_000);
        assert_eq!(
            stack(&["balance.looking"], &[]),
            ("balance.cpu-budget = \"6ms\" (typed)".to_owned(), 6_000)
        );
        let old = ("NODEWARD_BALANCE_LOOKING", "7ms");
        let (shown, ppm) = stack(&[], &[old]);
        assert_eq!(shown, "balance.cpu-budget = \"7ms\" ($NODEWARD_BALANCE_LOOKING)");
        assert_eq!(ppm, 7_000);
        let both = [old, ("NODEWARD_BALANCE_CPU_BUDGET", "8ms")];
        assert_eq!(stack(&[], &both).1, 8_000);
    }

    /// Goal: an invalid variable or word is named, and so is a variable that sets nothing; what is
    /// empty, or not a setting's, is not looked at.
    #[test]
    fn wrong_variables_and_words_are_named() {
        let places = SettingsPaths { user: None, system: "/nonexistent".into() };
        for (name, value, words) in [
            ("NODEWARD_MOVE_JOBS", "many", "'many' is not a number"),
            ("NODEWARD_BALANCE_INTERVALL", "3s", "no setting has this variable"),
        ] {
            let set = variables(&[("NODEWARD_BALANCE_X", ""), ("NODEWARD_X", "1"), (name, value)]);
            let error = places.read(&[], &set).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name} is wrong: {words}")), "{error}");
        }
        for (key, words) in [("balance.pinn", "unknown field `pinn`"), ("pin", "a key has a table")]
        {
            let typed = [(key.to_owned(), "true".to_owned())];
            let error = places.read(&typed, &Variables::new()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    /// Goal: values that contradict the machine or each other are refused with their key.
    #[test]
    fn what_cannot_be_meant() {
        let decided = |text: &str| {
            let layer =
                toml::from_str::<SettingsLayer>(&format!("[balance]\n{text}")).unwrap().balance;
            let error = layer
                .resolve(true)
                .map(drop)
                .and(layer.process_filter(&ProcessArgs::default()).map(drop));
            format!("{:#}", error.unwrap_err())
        };
        assert!(decided("interval = '1ms'").contains("balance.interval is below 100ms"));
        for budget in ["99us", "101ms"] {
            let told = decided(&format!("cpu-budget = '{budget}'"));
            assert!(told.contains("balance.cpu-budget is a part of each second"), "{told}");
        }
        let user = decided("users = ['nobody-of-this-name']");
        assert!(user.contains("'nobody-of-this-name' is no user"), "{user}");
        assert!(decided("except-users = ['nobody-of-this-name']").contains("is no user"));
    }

    /// Goal: the sampling budget while processes are brought home grows with the normal one: 60 ms
    /// a second are 20 x 3 ms, so it is 20 x 20 ms.
    #[test]
    fn the_cpu_budget_may_be_larger() {
        let text = "[balance]\ncpu-budget = '60ms'";
        let layer = toml::from_str::<SettingsLayer>(text).unwrap().balance;
        let settings = layer.resolve(true).unwrap();
        assert_eq!((settings.steady_ppm, settings.converging_ppm), (60_000, 400_000));
    }

    /// Goal: processes named on the command line replace those of the file.
    #[test]
    fn the_command_line_chooses_alone() {
        let text = "[balance]\nnames = ['a']\nusers = [33, 'root']\ncgroups = 'x,y'";
        let layer = toml::from_str::<SettingsLayer>(text).unwrap().balance;
        let by_file = layer.process_filter(&ProcessArgs::default()).unwrap();
        assert_eq!((by_file.names, by_file.users), (vec!["a".into()], vec![33, 0]));
        assert_eq!(by_file.cgroups, [PathBuf::from("x"), PathBuf::from("y")]);
        let chosen = ProcessArgs { name: vec!["b".into()], ..ProcessArgs::default() };
        let typed = layer.process_filter(&chosen).unwrap();
        assert_eq!((typed.names, typed.users), (vec!["b".into()], vec![]));
    }

    fn places(flag: Option<&str>, variables: &[(&str, &str)]) -> (String, bool) {
        let variable = |name: &str| {
            let (_, value) = variables.iter().find(|(found, _)| *found == name)?;
            Some(OsString::from(value))
        };
        let (path, must_exist) = SettingsPaths::find(flag.map(Path::new), variable).user.unwrap();
        (path.escaped().to_string(), must_exist)
    }

    /// Goal: the flag takes precedence over the variable, and the variable over the usual place.
    #[test]
    fn files_are_found_where_users_put_them() {
        let home = ("HOME", "/users/u");
        let usual = "/users/u/.config/nodeward/config.toml".to_owned();
        assert_eq!(places(None, &[home]), (usual.clone(), false));
        assert_eq!(places(None, &[home, ("XDG_CONFIG_HOME", "not/absolute")]), (usual, false));
        let xdg = [home, ("XDG_CONFIG_HOME", "/x")];
        assert_eq!(places(None, &xdg), ("/x/nodeward/config.toml".to_owned(), false));
        let named = [home, ("NODEWARD_CONFIG", "/n.toml")];
        assert_eq!(places(None, &named), ("/n.toml".to_owned(), true));
        assert_eq!(places(Some("f.toml"), &named), ("f.toml".to_owned(), true));
        assert_eq!(SettingsPaths::find(None, |_| None).user, None);
    }

    /// Goal: a named file must exist; another one need not.
    #[test]
    fn only_named_files_must_exist() {
        let nowhere = PathBuf::from("/nonexistent/nodeward.toml");
        let read = |must_exist| {
            let places = SettingsPaths {
                user: Some((nowhere.clone(), must_exist)),
                system: nowhere.clone(),
            };
            places.read(&[], &Variables::new()).map(|stack| stack.merged_layer())
        };
        assert_eq!(read(false).unwrap(), SettingsLayer::default());
        assert!(read(true).unwrap_err().to_string().ends_with("name another file"));
    }
}
