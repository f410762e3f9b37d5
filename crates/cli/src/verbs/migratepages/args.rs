//! Parses arguments as getopt_long(3) and strtoul(3) do for numactl's program.

use nodeward_model::Escape as _;

use super::error::MigratepagesError;

/// A pid and two node strings.
#[derive(Debug, PartialEq, Eq)]
pub struct MigratepagesArgs {
    /// 0 is the caller.
    pub pid: i64,
    pub from: String,
    pub to: String,
}

impl MigratepagesArgs {
    /// Parses the words. Options may be anywhere before `--`; the only one requests the usage.
    pub fn parse(program: &str, arguments: &[String]) -> Result<Self, MigratepagesError> {
        let mut words = Vec::new();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--" => words.extend(rest.by_ref()),
                option if option.starts_with('-') && option.len() > 1 => {
                    return Err(MigratepagesError::Usage(getopt_error(program, option)));
                }
                _ => words.push(argument),
            }
        }
        let [pid, from, to] = words[..] else { return Err(MigratepagesError::Usage(None)) };
        let pid = strtoul(pid).ok_or(MigratepagesError::Usage(None))?;
        Ok(Self { pid, from: from.clone(), to: to.clone() })
    }
}

/// Returns getopt_long's error for an option; `None` for the help option.
fn getopt_error(program: &str, option: &str) -> Option<String> {
    let program = program.escaped();
    match option.strip_prefix("--") {
        Some(long) if "help".starts_with(long) => None,
        Some(_) => Some(format!("{program}: unrecognized option '{}'", option.escaped())),
        None => {
            let letter = option.chars().nth(1).filter(|&letter| letter != 'h')?;
            Some(format!("{program}: invalid option -- '{letter}'"))
        }
    }
}

/// Parses a number as C does with base 0, with nothing after it. A number that fits no pid becomes
/// negative.
fn strtoul(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, radix) = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if digits.starts_with('0') => (digits, 8),
        None => (digits, 10),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    let value = i64::from_str_radix(digits, radix).ok().filter(|_| !negative);
    Some(value.unwrap_or(-1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<MigratepagesArgs, Option<String>> {
        let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        MigratepagesArgs::parse("migratepages", &arguments).map_err(|refusal| match refusal {
            MigratepagesError::Usage(complaint) => complaint,
            MigratepagesError::Node(..) | MigratepagesError::Syscall(..) => {
                panic!("nothing but usage can be wrong here")
            }
        })
    }

    #[test]
    fn pids_are_c_numbers() {
        for (text, pid) in [("7", 7), ("0x10", 16), ("010", 8), (" 7", 7), ("+7", 7), ("0", 0)] {
            assert_eq!(read(&[text, "0", "1"]).unwrap().pid, pid, "{text}");
        }
        assert_eq!(read(&["--", "-1", "0", "1"]).unwrap().pid, -1);
        assert_eq!(read(&["99999999999999999999", "0", "1"]).unwrap().pid, -1);
        for text in ["", "x", "7x", "0x", "08", "7 "] {
            assert_eq!(read(&[text, "0", "1"]), Err(None), "{text}");
        }
    }

    #[test]
    fn options_are_refused_as_getopt_does() {
        for help in ["-h", "--help", "--he", "-hx"] {
            assert_eq!(read(&["7", "0", "1", help]), Err(None), "{help}");
        }
        let told = |text: &str| Err(Some(format!("migratepages: {text}")));
        assert_eq!(read(&["-x"]), told("invalid option -- 'x'"));
        assert_eq!(read(&["--version"]), told("unrecognized option '--version'"));
        assert_eq!(read(&["7", "0"]), Err(None));
        assert_eq!(read(&["7", "0", "1", "2"]), Err(None));
    }
}
