//! Settings: what was typed, over the user's file, over the system's file, over the defaults.
//!
//! The system's file is /etc/nodeward.toml. The user's is $XDG_CONFIG_HOME/nodeward/config.toml
//! (~/.config where that is not set), or what --config or $NODEWARD_CONFIG names, which then must
//! exist.

mod values;

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nodeward_engine::{Jobs, MoveRequest, Order, Selection};
use nodeward_machine::{Error, Machine};
use nodeward_model::{Nodemask, Topology};
use nodeward_policy::workers;
use serde::Deserialize;

use values::{JobsChoice, RateChoice, StallChoice};

/// Where the system's settings are.
pub const SYSTEM_FILE: &str = "/etc/nodeward.toml";

/// How a move is done. One layer: what is absent is decided by the layer below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MoveLayer {
    /// Workers that move pages: a number, or auto for as many as pay
    #[arg(long, value_name = "N|auto")]
    pub jobs: Option<JobsChoice>,

    /// Move at most this much per second, such as 500MB/s, or unlimited
    #[arg(long, value_name = "RATE")]
    pub rate: Option<RateChoice>,

    /// Hold pages for no longer than this at a time, such as 1ms, or unlimited
    #[arg(long, value_name = "TIME")]
    pub stall: Option<StallChoice>,
}

impl MoveLayer {
    /// This layer, with gaps filled from the one below.
    fn over(self, below: Self) -> Self {
        Self {
            jobs: self.jobs.or(below.jobs),
            rate: self.rate.or(below.rate),
            stall: self.stall.or(below.stall),
        }
    }
}

/// A settings file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FileSettings {
    /// How a move is done.
    #[serde(default, rename = "move")]
    pub moving: MoveLayer,
}

/// How a move is done, decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveSettings {
    /// How many workers move pages.
    pub jobs: Jobs,
    /// Bytes per second; unlimited if `None`.
    pub rate_bytes_per_s: Option<u64>,
    /// Nanoseconds for which pages are held at a time; unlimited if `None`.
    pub stall_ns: Option<u64>,
}

impl MoveSettings {
    /// Puts the layers on top of each other and the defaults below them.
    pub fn layered(typed: MoveLayer, user: MoveLayer, system: MoveLayer) -> Self {
        let layer = typed.over(user).over(system);
        Self {
            jobs: layer.jobs.unwrap_or_default().0,
            rate_bytes_per_s: layer.rate.unwrap_or_default().0,
            stall_ns: layer.stall.unwrap_or_default().0,
        }
    }

    /// A move by workers near the destinations; `orders` are those of each process.
    ///
    /// # Errors
    /// If the machine does not tell on which CPUs we may run.
    pub fn request(
        &self,
        machine: &dyn Machine,
        topology: &Topology,
        orders: Vec<Arc<[Order]>>,
        selection: Selection,
    ) -> Result<MoveRequest, Error> {
        let all = orders.iter().flat_map(|orders| orders.iter());
        let to: Nodemask = all.flat_map(|order| order.pairs.iter()).map(|(_, to)| to).collect();
        Ok(MoveRequest {
            cpus: workers::cpus(topology, &to, &machine.usable_cpus()?),
            orders,
            selection,
            jobs: self.jobs,
            rate_bytes_per_s: self.rate_bytes_per_s,
            stall_ns: self.stall_ns,
        })
    }
}

/// Why settings could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file is not there or may not be read.
    #[error("cannot read the settings in {}; name another file by --config", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file does not say what it should. The source shows the line.
    #[error("the settings in {} are wrong; correct this line", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The line, and what is wrong with it.
        source: Box<toml::de::Error>,
    },
}

/// Where settings are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The user's file, if the user has a home, and whether it must exist.
    pub user: Option<(PathBuf, bool)>,
    /// The system's file.
    pub system: PathBuf,
}

impl Places {
    /// Finds them by the --config flag and the environment.
    pub fn find(flag: Option<&Path>, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let named = flag.map(Path::to_owned).or_else(|| path("NODEWARD_CONFIG"));
        let home = || path("HOME").map(|home| home.join(".config"));
        // A relative path in this variable is to be ignored, says its specification.
        let folder = path("XDG_CONFIG_HOME").filter(|path| path.is_absolute()).or_else(home);
        let usual = folder.map(|folder| (folder.join("nodeward/config.toml"), false));
        Self { user: named.map(|path| (path, true)).or(usual), system: SYSTEM_FILE.into() }
    }

    /// Reads both files and puts them below what was typed.
    pub fn read(&self, typed: MoveLayer) -> Result<MoveSettings, SettingsError> {
        let user = match &self.user {
            Some((path, true)) => file(path, &[])?,
            // A home that we may not enter (sudo -u) is somebody else's, and so are its settings.
            Some((path, false)) => file(path, &[ErrorKind::NotFound, ErrorKind::PermissionDenied])?,
            None => FileSettings::default(),
        };
        let system = file(&self.system, &[ErrorKind::NotFound])?;
        Ok(MoveSettings::layered(typed, user.moving, system.moving))
    }
}

/// Reads a file. Errors that are `absence` mean that there are no settings.
fn file(path: &Path, absence: &[ErrorKind]) -> Result<FileSettings, SettingsError> {
    match std::fs::read_to_string(path) {
        Ok(text) => toml::from_str(&text)
            .map_err(|source| SettingsError::Parse { path: path.into(), source: source.into() }),
        Err(error) if absence.contains(&error.kind()) => Ok(FileSettings::default()),
        Err(source) => Err(SettingsError::Read { path: path.into(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(text: &str) -> MoveLayer {
        toml::from_str::<FileSettings>(&format!("[move]\n{text}")).unwrap().moving
    }

    /// Goal: the file that we ship says what happens without it, for every key there is.
    #[test]
    fn the_sample_file_holds_the_defaults() {
        let sample = include_str!("../../../packaging/nodeward.toml");
        let moving = toml::from_str::<FileSettings>(sample).unwrap().moving;
        assert!(moving.jobs.is_some() && moving.rate.is_some() && moving.stall.is_some());
        let none = MoveLayer::default;
        assert_eq!(
            MoveSettings::layered(none(), none(), moving),
            MoveSettings::layered(none(), none(), none())
        );
    }

    /// Goal: each key is decided by the highest layer that has it, also when it lifts a limit.
    #[test]
    fn higher_layers_win_key_by_key() {
        let system = layer("jobs = 2\nrate = '1GB/s'\nstall = '1ms'");
        let user = layer("rate = '500MB/s'\nstall = 'unlimited'");
        let typed = layer("jobs = 'auto'");
        let settings = MoveSettings::layered(typed, user, system);
        assert_eq!(settings.jobs, Jobs::Auto);
        assert_eq!(settings.rate_bytes_per_s, Some(500_000_000));
        assert_eq!(settings.stall_ns, None);
    }

    /// Goal: what is wrong in a file is named with its line; nothing is silently ignored.
    #[test]
    fn mistakes_are_shown() {
        for (text, words) in [
            ("[move]\njob = 2", "unknown field `job`"),
            ("[moves]\n", "unknown field `moves`"),
            ("[move]\njobs = 0", "from 1 to"),
            ("[move]\nrate = '5 parsec'", "a rate such as"),
            ("[move]\nstall = 5", "a time such as"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("nodeward.toml");
            std::fs::write(&path, text).unwrap();
            let error = anyhow::Error::from(file(&path, &[]).unwrap_err());
            let shown = format!("{error:#}");
            assert!(shown.contains(words) && shown.contains("line"), "{shown}");
        }
    }

    fn places(flag: Option<&str>, variables: &[(&str, &str)]) -> (String, bool) {
        let variable = |name: &str| {
            let (_, value) = variables.iter().find(|(found, _)| *found == name)?;
            Some(OsString::from(value))
        };
        let (path, must_exist) = Places::find(flag.map(Path::new), variable).user.unwrap();
        (path.display().to_string(), must_exist)
    }

    /// Goal: the flag beats the variable, which beats the usual place.
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
        assert_eq!(Places::find(None, |_| None).user, None);
    }

    /// Goal: a file that was named must be there; one that was not need not.
    #[test]
    fn only_named_files_must_exist() {
        let nowhere = PathBuf::from("/nonexistent/nodeward.toml");
        let read = |must_exist| {
            let places =
                Places { user: Some((nowhere.clone(), must_exist)), system: nowhere.clone() };
            places.read(MoveLayer::default())
        };
        assert_eq!(read(false).unwrap().jobs, Jobs::Auto);
        assert!(read(true).unwrap_err().to_string().ends_with("by --config"));
    }
}
