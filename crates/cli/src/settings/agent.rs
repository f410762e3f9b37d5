//! The settings of `[balance]` that are about the agent.

use std::path::PathBuf;

use anyhow::{Result, bail};
use nodeward_agent::limits::MoveLimits;
use nodeward_agent::socket::SocketAccess;
use nodeward_linux::users;
use nodeward_model::Escape as _;

use super::balance::BalanceLayer;
use super::values::{ModeChoice, MovesChoice};

/// Everybody may connect.
const MODE: u32 = 0o666;

/// The settings of an agent, with defaults for missing values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSettings {
    /// Where it listens; `None` if it does not, unless a socket is handed over.
    pub socket: Option<PathBuf>,
    /// Who may connect.
    pub access: SocketAccess,
    /// What moves may cost.
    pub limits: MoveLimits,
    /// Processes that metrics name at most, here and in the textfile.
    pub metrics_processes: usize,
}

impl AgentSettings {
    /// Returns the settings of a layer.
    ///
    /// # Errors
    /// If the group does not exist here.
    pub fn resolve(layer: &BalanceLayer) -> Result<Self> {
        let usual = MoveLimits::default();
        let group = layer.socket_group.clone().unwrap_or_default().0;
        Ok(Self {
            socket: layer.socket.clone().unwrap_or_default().0,
            access: SocketAccess {
                mode: layer.socket_mode.map_or(MODE, |ModeChoice(mode)| mode),
                group: group.map(|name| group_id(&name)).transpose()?,
            },
            limits: MoveLimits {
                moves_of_user: layer.socket_moves.map_or(usual.moves_of_user, moves),
                rate_of_user: layer.socket_budget.map_or(usual.rate_of_user, |rate| rate.0),
                ..usual
            },
            metrics_processes: layer.metrics_processes.unwrap_or_default().0.into(),
        })
    }
}

fn moves(MovesChoice(moves): MovesChoice) -> usize {
    moves
}

fn group_id(name: &str) -> Result<u32> {
    match users::gid(name)? {
        Some(number) => Ok(number),
        None => bail!(
            "'{}' is no group in /etc/group; give the number that id -g tells",
            name.escaped()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::source::SettingsSource;

    /// Goal: without a setting there is no socket, and the file that we ship has the defaults.
    #[test]
    fn the_agent_is_off_by_default() {
        let usual = AgentSettings::resolve(&BalanceLayer::default()).unwrap();
        assert_eq!((&usual.socket, usual.access.mode), (&None, 0o666));
        assert_eq!(
            AgentSettings::resolve(&SettingsSource::defaults().layer.balance).unwrap(),
            usual
        );
    }

    /// Goal: a group that does not exist is named.
    #[test]
    fn groups_are_looked_up() {
        let with = |group: &str| BalanceLayer {
            socket_group: Some(group.parse().unwrap()),
            ..BalanceLayer::default()
        };
        assert_eq!(AgentSettings::resolve(&with("root")).unwrap().access.group, Some(0));
        let error = AgentSettings::resolve(&with("no such")).unwrap_err().to_string();
        assert!(error.contains("'no such' is no group"), "{error}");
    }
}
