//! Settings from several sources. In order of precedence: the command line, environment variables,
//! the user's file, the system's file, the defaults.
//!
//! The variable of a setting is its name: NODEWARD_BALANCE_INTERVAL. The system's file is
//! /etc/nodeward.toml. The user's is $XDG_CONFIG_HOME/nodeward/config.toml (~/.config if that is
//! not set), or the one that --config or $NODEWARD_CONFIG names, which then must exist.

mod agent;
mod balance;
mod error;
mod groups;
mod home_choice;
mod key;
mod layer;
mod moves;
pub mod source;
mod stack;
pub mod state_dir;
mod values;

pub use agent::AgentSettings;
pub use balance::{BalanceLayer, ProcessArgs};
pub use error::SettingsError;
pub use home_choice::GroupHomeChoice;
pub use layer::SettingsLayer;
pub use moves::{MoveLayer, MoveSettings};
pub use source::{SettingOrigin, SettingValue};
pub use stack::{FileState, SearchedFile, SettingsPaths};
pub use values::{PageListsChoice, SchedulerChoice, name_parser};
