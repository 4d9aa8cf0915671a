//! The command line of `rc3 copy`.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;
use rc3_core::units::Rate;
use rc3_text::units::{UnitError, parse_rate};
use thiserror::Error;

use super::{
    CopyJob, Direction, Place, ViaSsh,
    message::{Choice, Handling},
};
use crate::{
    cli::{
        high,
        low::{CongestionChoice, NetworkArgs, RlpChoice},
    },
    transfer::progress::Style,
};

/// `rc3 copy`
#[derive(Debug, Clone, Args)]
#[command(
    override_usage = "rc3 copy [OPTIONS] SRC... DST",
    after_help = "\
Either every SRC or DST is on another host: HOST:PATH or USER@HOST:PATH, where a relative PATH begins at the home \
directory, and an IPv6 address stands in brackets. A name with a colon is local if a slash comes first: ./a:b. DST is an \
existing directory, or for one SRC its new name. Directories are copied with their whole content. The other host expands \
no wildcards.

ssh starts rc3 on the other host; its configuration, keys, agent and ProxyJump apply. The data goes by UDP to the address \
that ssh reached. Behind NAT or a jump host that address may not be reachable: pass one by --address, or use --via-ssh. \
See docs/COPY.md.

Examples:
  rc3 copy big.iso host:/data/              into a directory there
  rc3 copy big.iso host:/data/new.iso       under a new name
  rc3 copy host:/data/run7 .                a directory from there
  rc3 copy -e 'ssh -p 2222' a b me@host:    another port of ssh
  rc3 copy --port 4433-4440 a host:         UDP ports that the firewall there passes
  rc3 copy --via-ssh a host:                without UDP"
)]
pub struct CopyArgs {
    /// Sources, then the destination
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    pub places: Vec<OsString>,
    /// Program for ssh, with its options; it gets the host and the command as further arguments [default: ssh]
    #[arg(long, short = 'e', value_name = "COMMAND")]
    pub ssh: Option<String>,
    /// Path of rc3 on the other host
    #[arg(long, default_value = "rc3", value_name = "PATH")]
    pub rc3_path: String,
    /// UDP port there, or a range whose first free port is taken [default: any]
    #[arg(long, default_value = "0", hide_default_value = true, value_name = "PORT[-PORT]", value_parser = parse_ports)]
    pub port: (u16, u16),
    /// Name or address at which UDP reaches the other host [default: the address that ssh reached]
    #[arg(long, value_name = "HOST")]
    pub address: Option<String>,
    /// Carry the data through ssh
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "never", default_missing_value = "always")]
    pub via_ssh: ViaSsh,
    /// Replace files that exist with other content
    #[arg(long, conflicts_with = "keep_both")]
    pub force: bool,
    /// Keep files that exist with other content, and store the new ones as `NAME (1).EXT`
    #[arg(long)]
    pub keep_both: bool,
    /// Take an existing file of the same size and modification time for the same, without comparing the content
    #[arg(long)]
    pub quick_check: bool,
    /// Copy symbolic links as links
    #[arg(long)]
    pub links: bool,
    /// Copy only files that match a pattern; may be given more than once
    #[arg(long, value_name = "PATTERN")]
    pub include: Vec<String>,
    /// Leave out what matches a pattern; may be given more than once
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Write each file to disk before it gets its name, and sync new names and directories
    #[arg(long)]
    pub fsync: bool,
    /// Delete incomplete files instead of keeping them for the next run
    #[arg(long)]
    pub discard_partial: bool,
    /// Send at most at this average rate
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate_limit: Option<Rate>,
    /// Whether low priority is used; never through ssh
    #[arg(long, value_enum, default_value_t = RlpChoice::Guard, value_name = "MODE")]
    pub rlp: RlpChoice,
    /// Congestion control of normal-priority packets
    #[arg(long, value_enum, default_value_t = CongestionChoice::Cubic, value_name = "CONTROL")]
    pub congestion: CongestionChoice,
    /// Network settings
    #[command(flatten)]
    pub network: NetworkArgs,
    /// Print one JSON event per line: skipped, waiting, start, progress, file, done, error
    #[arg(long, conflicts_with = "quiet")]
    pub json: bool,
    /// Print only errors
    #[arg(long)]
    pub quiet: bool,
}

/// Why the arguments name no copy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CopyUsageError {
    /// No remote side.
    #[error("neither side is on another host")]
    Local,
    /// Two remote sides.
    #[error("both sides are on other hosts")]
    Remote,
    /// Sources on several hosts, or some here.
    #[error("the sources are not on one host")]
    Mixed,
    /// ssh would read it as an option.
    #[error("the host is empty or begins with a dash")]
    Host,
    /// A malformed pattern.
    #[error("not a pattern: {0}")]
    Pattern(#[from] globset::Error),
    /// Unbalanced quotes.
    #[error("--ssh has unbalanced quotes")]
    Ssh,
}

impl CopyUsageError {
    /// What the user can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Local => "write HOST:PATH for one side, or use cp",
            Self::Remote => "run rc3 copy on one of the two hosts",
            Self::Mixed => "run one command for each host",
            Self::Host => "write HOST:PATH, or ./NAME for a local name with a colon",
            Self::Pattern(_) => "quote patterns so that the shell leaves them alone; see rc3 send --help",
            Self::Ssh => "write for example: --ssh 'ssh -p 2222'",
        }
    }
}

impl CopyArgs {
    /// The job and its output.
    ///
    /// # Errors
    /// See [`CopyUsageError`].
    pub fn resolve(self) -> Result<(CopyJob, Style), CopyUsageError> {
        let (host, direction) = direction(&self.places)?;
        let ssh = self.ssh.as_deref().map(shlex::split).map_or(Some(Vec::new()), |words| words);
        let ssh = ssh.ok_or(CopyUsageError::Ssh)?;
        if host.is_empty() || host.starts_with('-') || (self.ssh.is_some() && ssh.is_empty()) {
            return Err(CopyUsageError::Host);
        }
        let Self { force, keep_both, quick_check, fsync, discard_partial, .. } = self;
        let Self { rlp, congestion, rate_limit, .. } = self;
        let choice = Choice { links: self.links, include: self.include, exclude: self.exclude };
        let selection = choice.selection()?;
        let job = CopyJob {
            direction,
            host,
            ssh,
            rc3_path: self.rc3_path,
            ports: self.port,
            address: self.address,
            via_ssh: self.via_ssh,
            policy: Handling { force, keep_both, quick_check, fsync, discard_partial },
            choice,
            selection,
            rate_limit,
            rlp,
            congestion,
            marks: self.network.marks,
            network: high::network(self.network),
        };
        Ok((job, Style::choose(self.json, self.quiet)))
    }
}

/// The other host, and which way the data goes.
fn direction(places: &[OsString]) -> Result<(String, Direction), CopyUsageError> {
    let mut places: Vec<_> = places.iter().map(|place| Place::parse(place)).collect();
    let Some(last) = places.pop() else { return Err(CopyUsageError::Local) };
    match last {
        Place::There { host, path } => {
            let here = |place| match place {
                Place::Here(source) => Ok(source),
                Place::There { .. } => Err(CopyUsageError::Remote),
            };
            let sources: Vec<PathBuf> = places.into_iter().map(here).collect::<Result<_, _>>()?;
            Ok((host, Direction::Upload { sources, path }))
        }
        Place::Here(path) => {
            let (mut hosts, mut sources, local) = (Vec::new(), Vec::new(), places.len());
            for place in places {
                if let Place::There { host, path } = place {
                    hosts.push(host);
                    sources.push(path);
                }
            }
            hosts.dedup();
            match (hosts.pop(), hosts.is_empty() && sources.len() == local) {
                (Some(host), true) => Ok((host, Direction::Download { sources, path })),
                (Some(_), false) => Err(CopyUsageError::Mixed),
                (None, _) => Err(CopyUsageError::Local),
            }
        }
    }
}

fn rate(text: &str) -> Result<Rate, UnitError> {
    parse_rate(text).map(Rate::from)
}

fn parse_ports(text: &str) -> Result<(u16, u16), String> {
    let port = |text: &str| text.parse::<u16>().ok();
    let range = match text.split_once('-') {
        Some((first, last)) => {
            port(first).zip(port(last)).filter(|&(first, last)| 0 < first && first <= last)
        }
        None => port(text).map(|port| (port, port)),
    };
    range.ok_or_else(|| "write a port, or a range like 4433-4440".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(places: &[&str]) -> Result<(String, Direction), CopyUsageError> {
        direction(&places.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn one_side_is_on_another_host() {
        let (host, direction) = way(&["a", "./b:c", "me@h:/d"]).unwrap();
        let sources = vec![PathBuf::from("a"), PathBuf::from("./b:c")];
        assert_eq!((host.as_str(), direction), ("me@h", Direction::Upload { sources, path: b"/d".to_vec() }));
        let (host, direction) = way(&["h:a", "h:b", "."]).unwrap();
        let sources = vec![b"a".to_vec(), b"b".to_vec()];
        assert_eq!((host.as_str(), direction), ("h", Direction::Download { sources, path: ".".into() }));
        assert!(matches!(way(&["a", "b"]), Err(CopyUsageError::Local)));
        assert!(matches!(way(&["h:a", "h:b"]), Err(CopyUsageError::Remote)));
        assert!(matches!(way(&["h:a", "i:b", "."]), Err(CopyUsageError::Mixed)));
        assert!(matches!(way(&["a", "h:b", "."]), Err(CopyUsageError::Mixed)));
    }

    #[test]
    fn ports_are_one_or_a_range() {
        assert_eq!(parse_ports("4433"), Ok((4433, 4433)));
        assert_eq!(parse_ports("4433-4440"), Ok((4433, 4440)));
        for wrong in ["", "x", "70000", "5-4", "0-4", "4-"] {
            assert!(parse_ports(wrong).is_err(), "{wrong}");
        }
    }
}
