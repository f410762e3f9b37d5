//! Parses arguments as numad's program takes them.

use anyhow::{Context as _, Result, bail};
use nodeward_model::{Cpumask, Escape as _};
use nodeward_policy::advice::ProgramNeed;

/// The usage, for `-h`.
pub const USAGE: &str = "\
usage: numad -w CPUS[:MB] [-R CPUS] [-C 0|1]
  -w CPUS[:MB]  print the nodes that are best for a program with so many threads and so much memory
  -R CPUS       leave these CPUs out
  -C 0|1        whether cold pages of cached files count as free memory (default 1)
  -V            print the version
nodeward is no daemon under this name: nodeward balance keeps programs at home.
";

/// Options with a word after them.
const WITH_WORD: &str = "CHiKlmpRrStuwx";
/// Options that change how the daemon works or logs, and not the advice.
const WITHOUT_EFFECT: &str = "dvFHilmKSu";

/// The request of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumadCall {
    /// The usage.
    Help,
    /// The version.
    Version,
    /// Advice.
    Query(NumadQuery),
}

/// A question for nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumadQuery {
    /// The CPUs and the memory that the program needs.
    pub need: ProgramNeed,
    /// CPUs that are left out.
    pub reserved: Cpumask,
    /// Cold pages of files count as free memory.
    pub counts_cold: bool,
}

impl NumadCall {
    /// Parses the words: options may be joined, and their words with them, as getopt(3) takes them.
    ///
    /// # Errors
    /// If the words cannot be understood, or ask for the daemon; the error has what to use then.
    pub fn parse(arguments: &[String]) -> Result<Self> {
        let (mut need, mut reserved, mut counts_cold) = (None, Cpumask::new(), true);
        for (option, word) in options(arguments)? {
            match option {
                'h' => return Ok(Self::Help),
                'V' => return Ok(Self::Version),
                'w' => need = Some(parse_need(&word)?),
                'R' => reserved = word.parse().context("-R takes a list of CPUs, such as 0-3,8")?,
                'C' => counts_cold = parse_switch(&word)?,
                option if WITHOUT_EFFECT.contains(option) => {}
                option => bail!("{}", refusal(option)),
            }
        }
        let Some(need) = need else {
            bail!(
                "without -w it would be a daemon; start nodeward balance instead (systemctl enable \
                 --now nodeward-balance), and stop it by systemctl stop nodeward-balance"
            );
        };
        Ok(Self::Query(NumadQuery { need, reserved, counts_cold }))
    }
}

/// Returns each option with the word that belongs to it, or an empty one.
fn options(arguments: &[String]) -> Result<Vec<(char, String)>> {
    let mut options = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let letters = argument.strip_prefix('-').filter(|letters| !letters.is_empty());
        let Some(mut letters) = letters else {
            bail!("'{}' is no option; numad -h tells them", argument.escaped());
        };
        while let Some(option) = letters.chars().next() {
            letters = &letters[option.len_utf8()..];
            let word = match std::mem::take(&mut letters) {
                others if !WITH_WORD.contains(option) => {
                    letters = others;
                    Some(String::new())
                }
                "" => rest.next().cloned(),
                joined => Some(joined.to_owned()),
            };
            let word = word.with_context(|| format!("-{option} needs a word after it"))?;
            options.push((option, word));
        }
    }
    Ok(options)
}

/// Parses `CPUS[:MB]`, both positive numbers.
fn parse_need(word: &str) -> Result<ProgramNeed> {
    let (cpus, mib) = word.split_once(':').unwrap_or((word, "0"));
    let wrong = || format!("-w takes CPUS[:MB], such as 4:2048, not '{}'", word.escaped());
    let cpus: u32 = cpus.parse().with_context(wrong)?;
    let mib: u64 = mib.parse().with_context(wrong)?;
    if cpus == 0 {
        bail!(wrong());
    }
    Ok(ProgramNeed { cpus, bytes: mib.saturating_mul(1 << 20) })
}

fn parse_switch(word: &str) -> Result<bool> {
    match word {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => bail!("-C takes 0 or 1"),
    }
}

/// Says what to use of nodeward instead of an option.
fn refusal(option: char) -> String {
    let instead = match option {
        'p' => "use nodeward balance --pid PID",
        'r' | 'x' => "use nodeward balance --except-names NAME",
        't' => "every hardware thread counts as a CPU; leave it out",
        _ => return format!("-{option} is not known; numad -h tells the options"),
    };
    format!("-{option} is not for nodeward under this name; {instead}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<NumadCall> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        NumadCall::parse(&words)
    }

    fn query(cpus: u32, mib: u64) -> NumadQuery {
        let need = ProgramNeed { cpus, bytes: mib << 20 };
        NumadQuery { need, reserved: Cpumask::new(), counts_cold: true }
    }

    /// Goal: the question is understood as libvirt writes it, and beside options that change only
    /// the daemon.
    #[test]
    fn questions() {
        for line in
            ["-w 4:2048", "-w4:2048", "-dw 4:2048", "-i 0 -S 1 -v -K1 -H 1000 -u 85 -l 7 -w4:2048"]
        {
            assert_eq!(parse(line).unwrap(), NumadCall::Query(query(4, 2048)), "{line}");
        }
        assert_eq!(parse("-w 7").unwrap(), NumadCall::Query(query(7, 0)));
        let reserved =
            NumadQuery { reserved: "0-1".parse().unwrap(), counts_cold: false, ..query(1, 0) };
        assert_eq!(parse("-R 0-1 -C 0 -w 1").unwrap(), NumadCall::Query(reserved));
        assert_eq!(parse("-h").unwrap(), NumadCall::Help);
        assert_eq!(parse("-V").unwrap(), NumadCall::Version);
    }

    /// Goal: each refusal is one line that says what to do.
    #[test]
    fn refusals() {
        for (line, words) in [
            ("", "nodeward balance"),
            ("-i 15", "nodeward balance"),
            ("-i 0", "systemctl stop"),
            ("-p 7 -w 1", "nodeward balance --pid"),
            ("-x 7", "--except-names"),
            ("-r 7", "--except-names"),
            ("-t 50 -w 1", "hardware thread"),
            ("-w", "needs a word"),
            ("-w 0", "4:2048"),
            ("-w 4:", "4:2048"),
            ("-w -1", "4:2048"),
            ("-w 4:x", "4:2048"),
            ("-w 99999999999", "4:2048"),
            ("-C 2 -w 1", "0 or 1"),
            ("-R x -w 1", "list of CPUs"),
            ("-Z", "not known"),
            ("4:2048", "no option"),
            ("-", "no option"),
        ] {
            let error = format!("{:#}", parse(line).unwrap_err());
            assert!(error.contains(words) && error.lines().count() == 1, "{line}: {error}");
        }
    }

    /// Goal: a huge size does not overflow.
    #[test]
    fn huge_sizes() {
        let NumadCall::Query(query) = parse(&format!("-w 1:{}", u64::MAX)).unwrap() else {
            panic!()
        };
        assert_eq!(query.need.bytes, u64::MAX);
    }
}
