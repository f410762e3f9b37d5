//! `nodeward export`: hands out the metrics of the agent to Prometheus.

use anyhow::Result;
use nodeward_agent::exporter::Exporter;

use crate::args::ExportArgs;
use crate::message::exit::Exit;

/// Serves until a signal ends the program, as it ends any other: nothing is half done then.
pub fn run(args: &ExportArgs) -> Result<Exit> {
    let exporter = Exporter::bind(args.listen, &args.agent)?;
    say!("nodeward: metrics are at http://{}/metrics", exporter.address());
    exporter.serve(|words| say!("nodeward: {words}"))
}
