//! Arguments of `export`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use nodeward_agent::socket::DEFAULT_PATH;
use nodeward_model::Escape as _;

/// Arguments of `export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Serve http://ADDRESS:PORT/metrics, for example at 127.0.0.1:9917; all addresses of this
    /// machine are [::]:9917
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub listen: SocketAddr,
    /// The socket of the agent
    #[arg(long, value_name = "SOCKET", default_value = DEFAULT_PATH)]
    pub agent: PathBuf,
}

/// Parses an address by number: a name may stand for several, and may take long to look up.
fn address(text: &str) -> Result<SocketAddr, String> {
    let wrong = |_| {
        format!(
            "'{}' is no address with a port, such as 127.0.0.1:9917 or [::1]:9917",
            text.escaped()
        )
    };
    text.parse().map_err(wrong)
}
