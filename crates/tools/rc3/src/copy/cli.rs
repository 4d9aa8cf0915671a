//! The command line of `rc3 copy`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, ValueEnum};
use rc3_core::units::Rate;

use super::{CopyJob, Direction, Place};
use crate::{
    cli::low::{GatewayArgs, LoopArgs, NetworkArgs, OutputArgs, PolicyArgs, SelectionArgs, rate},
    error::{Error, Result},
    transfer::{attributes::Preserve, destination::Policy},
};

/// Whether ssh carries the datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ViaSsh {
    /// Always
    Always,
    /// If no UDP address answers within 5 s
    Auto,
    /// Never
    Never,
}

/// `rc3 copy`
#[derive(Debug, Clone, Args)]
#[command(
    override_usage = "rc3 copy [OPTIONS] SRC... DST",
    after_help = "\
Either every SRC or DST is on another host: HOST:PATH or USER@HOST:PATH, where a relative PATH begins at the home \
directory, and an IPv6 address stands in brackets. A name with a colon is local if a slash comes first: ./a:b. DST is an \
existing directory, or for one SRC its new name. Directories are copied with their whole content. The other host expands \
no wildcards.

ssh starts rc3 on the other host; its configuration, keys, agent and ProxyJump apply. The data goes by UDP, also through \
most NATs. Where UDP does not pass, it goes through ssh, and one line says so. See docs/COPY.md.

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
    /// Name or address at which UDP reaches the other host [default: those that it names, and the one ssh connects to]
    #[arg(long, value_name = "HOST")]
    pub address: Option<String>,
    /// When ssh carries the data; without WHEN always
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1, require_equals = true, conflicts_with = "background")]
    #[arg(default_value = "auto", default_missing_value = "always")]
    pub via_ssh: ViaSsh,
    /// What happens to files that exist, and to incomplete ones
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Which files
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// What else to keep of files
    #[command(flatten)]
    pub preserve: Preserve,
    /// Write each file to disk before it gets its name, and sync new names and directories
    #[arg(long)]
    pub fsync: bool,
    /// Send at most at this average rate
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate_limit: Option<Rate>,
    /// How both loops send
    #[command(flatten)]
    pub loops: LoopArgs,
    /// Network settings
    #[command(flatten)]
    pub network: NetworkArgs,
    /// The gateway
    #[command(flatten)]
    pub gateway: GatewayArgs,
    /// Output settings
    #[command(flatten)]
    pub output: OutputArgs,
}

impl CopyArgs {
    /// How to handle files.
    pub(super) fn policy(&self) -> Policy {
        self.policy.resolve(self.fsync.into(), self.preserve)
    }

    /// The job.
    ///
    /// # Errors
    /// When the flags do not fit together.
    pub fn resolve(self) -> Result<CopyJob> {
        let (host, direction) = direction(&self.places)?;
        let ssh = self.ssh.as_deref().map(shlex::split).map_or(Some(Vec::new()), |words| words);
        let ssh = ssh.ok_or_else(|| {
            Error::usage("--ssh has unbalanced quotes", "write for example: --ssh 'ssh -p 2222'")
        })?;
        if host.is_empty() || host.starts_with('-') || (self.ssh.is_some() && ssh.is_empty()) {
            let hint = "write HOST:PATH, or ./NAME for a local name with a colon";
            return Err(Error::usage("the host is empty or begins with a dash", hint));
        }
        self.selection.resolve(self.preserve)?;
        Ok(CopyJob { direction, host, ssh, args: self })
    }
}

/// The other host, and which way the data goes.
fn direction(places: &[OsString]) -> Result<(String, Direction)> {
    let mut places: Vec<_> = places.iter().map(|place| Place::parse(place)).collect();
    let local = || Error::usage("neither side is on another host", "write HOST:PATH for one side, or use cp");
    let last = places.pop().ok_or_else(local)?;
    match last {
        Place::There { host, path } => {
            let here = |place| match place {
                Place::Here(source) => Ok(source),
                Place::There { .. } => {
                    let hint = "run rc3 copy on one of the two hosts";
                    Err(Error::usage("both sides are on other hosts", hint))
                }
            };
            let sources: Vec<PathBuf> = places.into_iter().map(here).collect::<Result<_, _>>()?;
            Ok((host, Direction::Upload { sources, path }))
        }
        Place::Here(path) => {
            let (mut hosts, mut sources, all) = (Vec::new(), Vec::new(), places.len());
            for place in places {
                if let Place::There { host, path } = place {
                    hosts.push(host);
                    sources.push(path);
                }
            }
            hosts.dedup();
            match (hosts.pop(), hosts.is_empty() && sources.len() == all) {
                (Some(host), true) => Ok((host, Direction::Download { sources, path })),
                (Some(_), false) => {
                    Err(Error::usage("the sources are not on one host", "run one command for each host"))
                }
                (None, _) => Err(local()),
            }
        }
    }
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

    fn way(places: &[&str]) -> Result<(String, Direction)> {
        direction(&places.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn refused(places: &[&str]) -> String {
        way(places).unwrap_err().to_string()
    }

    #[test]
    fn one_side_is_on_another_host() {
        let (host, direction) = way(&["a", "./b:c", "me@h:/d"]).unwrap();
        let sources = vec![PathBuf::from("a"), PathBuf::from("./b:c")];
        assert_eq!((host.as_str(), direction), ("me@h", Direction::Upload { sources, path: b"/d".to_vec() }));
        let (host, direction) = way(&["h:a", "h:b", "."]).unwrap();
        let sources = vec![b"a".to_vec(), b"b".to_vec()];
        assert_eq!((host.as_str(), direction), ("h", Direction::Download { sources, path: ".".into() }));
        assert!(refused(&["a", "b"]).starts_with("neither"));
        assert!(refused(&["h:a", "h:b"]).starts_with("both sides"));
        assert!(refused(&["h:a", "i:b", "."]).contains("not on one host"));
        assert!(refused(&["a", "h:b", "."]).contains("not on one host"));
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
