//! Errors in settings: where the wrong value is, and what to do.

use std::io;
use std::path::PathBuf;

use nodeward_files::is_not_regular_file;
use nodeward_model::Escape as _;

/// An error in settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file does not exist or may not be read.
    #[error("cannot read the settings in {}; {}", path.escaped(), remedy(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The content of the file is invalid.
    #[error("the settings in {} are wrong in {location}: {message}", path.escaped())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The line, and the key if its value is wrong.
        location: String,
        /// The error, in a line.
        message: String,
    },
    /// A variable or an argument is invalid.
    #[error("{name} is wrong: {message}")]
    Value {
        /// The variable, or the typed text.
        name: String,
        /// The error.
        message: String,
    },
}

fn remedy(source: &io::Error) -> &'static str {
    match is_not_regular_file(source) {
        true => "put a file there, or name another",
        false if source.kind() == io::ErrorKind::PermissionDenied => "make it readable for you",
        false => "name another file",
    }
}
