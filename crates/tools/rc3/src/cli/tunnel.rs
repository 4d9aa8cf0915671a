//! `rc3 tunnel`: its flags and their meaning.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

use super::{
    low::{NetworkArgs, RlpChoice, parse_advertise, parse_bind},
    ticket,
};
use crate::{
    error::{Error, Result},
    transfer::network::state_directory,
    tunnel::{
        address::{Forward, Target, dynamic},
        allow::TargetPattern,
        connect::PeerChoice,
        files::Files,
        remote::RemoteListen,
    },
};

/// `rc3 tunnel`
#[derive(Debug, Clone, Args)]
#[command(
    override_usage = "\
rc3 tunnel --listen [OPTIONS]
       rc3 tunnel [-L FORWARD] [-R FORWARD] [-D ADDR] [--stdio[=TARGET]] [OPTIONS] [NAME|TICKET|-]",
    after_help = "\
Run `rc3 tunnel --listen` on one host. It prints a ticket. Connect from the other host with the ticket once: both hosts \
then know each other's identity, and NAME, the ticket's host, is enough. Anyone with the ticket can pair while that \
`rc3 tunnel --listen` runs: treat it like a password.

Examples, after `rc3 tunnel --listen --advertise far.example` on the other host:
    rc3 tunnel -L 8080:localhost:80 -              pair by the ticket on standard input
    rc3 tunnel -L 8080:localhost:80 far.example    port 8080 here is port 80 there
    rc3 tunnel -D 1080 far.example                 SOCKS 5 and HTTP CONNECT; there: --allow '*:443'
    rc3 tunnel -R 2222:localhost:22 far.example    there: --allow-remote-listen
    ssh -o ProxyCommand='rc3 tunnel --stdio %h' far.example
    rsync -e \"ssh -o ProxyCommand='rc3 tunnel --stdio %h'\" -a dir far.example:

Everything listens on loopback addresses unless you name others. The listening host connects to its own loopback \
addresses only, unless --allow names targets. Files: identity, authorized_peers and known_peers in rc3 below \
$XDG_STATE_HOME or ~/.local/state; docs/TUNNEL.md has their formats."
)]
pub struct TunnelArgs {
    /// A known peer, or the line that `rc3 tunnel --listen` printed there, or `-` to read it from standard input
    #[arg(value_name = "NAME|TICKET", conflicts_with_all = ["listen", "show_identity"])]
    pub peer: Option<String>,
    /// Read the ticket from this file; with --listen, write it there, readable only by you
    #[arg(long, value_name = "FILE")]
    pub ticket_file: Option<PathBuf>,
    /// Listen here, connect there: `[BIND:]PORT:HOST:HOSTPORT`, or with `/udp` after it datagrams of UDP
    #[arg(short = 'L', long = "local", value_name = "FORWARD", conflicts_with = "listen")]
    pub local: Vec<Forward>,
    /// Listen there, connect here: `[BIND:]PORT:HOST:HOSTPORT`
    #[arg(short = 'R', long = "remote", value_name = "FORWARD", conflicts_with = "listen")]
    pub remote: Vec<Forward>,
    /// Listen here for clients of SOCKS 5 or HTTP CONNECT, whose targets are connected to from there: `[BIND:]PORT`
    #[arg(short = 'D', long = "dynamic", value_name = "ADDR", value_parser = dynamic, conflicts_with = "listen")]
    pub dynamic: Vec<SocketAddr>,
    /// Connect standard input and output to a target there
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1, require_equals = true, conflicts_with = "listen")]
    #[arg(default_missing_value = "localhost:22")]
    pub stdio: Option<Target>,
    /// What to call the peer from now on [default: the ticket's host]
    #[arg(long, conflicts_with = "listen")]
    pub name: Option<String>,
    /// Serve other hosts until interrupted; prints a ticket
    #[arg(long)]
    pub listen: bool,
    /// UDP address to listen on: IP:PORT, IP, or :PORT [default: any address, port 4433]
    #[arg(long, alias = "address", value_name = "ADDR", value_parser = parse_bind)]
    pub bind: Option<SocketAddr>,
    /// Address in the ticket, instead of those of this host
    #[arg(long, value_name = "HOST[:PORT]", value_parser = parse_advertise)]
    pub advertise: Option<(String, Option<u16>)>,
    /// Serve only the identities in authorized_peers; prints no ticket
    #[arg(long, conflicts_with = "ticket_file")]
    pub no_ticket: bool,
    /// Target that peers may reach; repeat it for more. `*` is any host or port [default: all ports of loopback
    /// addresses]
    #[arg(long, value_name = "HOST:PORT")]
    pub allow: Vec<TargetPattern>,
    /// Let peers listen on this host (-R)
    #[arg(long, value_enum, value_name = "WHERE", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "loopback")]
    pub allow_remote_listen: Option<RemoteListen>,
    /// Serve metrics for Prometheus at http://ADDR/metrics
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<SocketAddr>,
    /// Print this user's identity for authorized_peers on another host
    #[arg(long, conflicts_with = "listen")]
    pub show_identity: bool,
    /// Directory of identity, authorized_peers and known_peers [default: rc3 in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// File of this user's identity, made on first use [default: identity in the state directory]
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// Whether low priority is used
    #[arg(long, value_enum, default_value_t = RlpChoice::Guard, value_name = "MODE")]
    pub rlp: RlpChoice,
    /// Network settings
    #[command(flatten)]
    pub network: NetworkArgs,
}

impl TunnelArgs {
    /// The user's files.
    ///
    /// # Errors
    /// When no directory is given, and the environment names none.
    pub fn files(&self) -> Result<Files> {
        let directory = self.state.clone().or_else(state_directory).ok_or_else(|| {
            Error::usage(
                "cannot find the state directory: HOME is not set",
                "name a directory by --state DIR",
            )
        })?;
        Ok(Files::new(directory, self.identity.clone()))
    }

    /// The peer to connect to.
    ///
    /// # Errors
    /// When it is not named, or nothing is forwarded, or a flag is of the listening side.
    pub fn peer(&self) -> Result<PeerChoice> {
        // clap drops a requirement that conflicts with another argument.
        if let Some(option) = of_listening_side(self) {
            let hint = "give that option to `rc3 tunnel --listen` on the other host";
            return Err(Error::usage(format!("{option} works only with --listen"), hint));
        }
        let Self { local, remote, dynamic, stdio, .. } = self;
        if local.is_empty() && remote.is_empty() && dynamic.is_empty() && stdio.is_none() {
            let hint = "name what to forward: -L, -R, -D or --stdio; see rc3 tunnel --help";
            return Err(Error::usage("nothing to forward", hint));
        }
        if remote.iter().any(|forward| forward.udp) {
            let hint = "run the tunnel from the other host, with -L";
            return Err(Error::usage("-R does not forward UDP", hint));
        }
        peer(self)
    }
}

/// An option that only the listening side has.
fn of_listening_side(args: &TunnelArgs) -> Option<&'static str> {
    let options = [
        ("--bind", args.bind.is_some()),
        ("--advertise", args.advertise.is_some()),
        ("--no-ticket", args.no_ticket),
        ("--allow", !args.allow.is_empty()),
        ("--allow-remote-listen", args.allow_remote_listen.is_some()),
        ("--metrics", args.metrics.is_some()),
    ];
    options.into_iter().find_map(|(option, given)| given.then_some(option))
}

/// The peer by ticket or name.
fn peer(args: &TunnelArgs) -> Result<PeerChoice> {
    let argument = args.peer.as_deref();
    let file = args.ticket_file.as_ref().and_then(|file| file.to_str());
    if args.stdio.is_some() && argument.or(file) == Some("-") {
        let message = "standard input cannot be both the ticket and the stream";
        return Err(Error::usage(message, "pass the ticket by --ticket-file or by RC3_TICKET"));
    }
    let by_name = argument.filter(|argument| !ticket::is_ticket(argument.as_ref()));
    let found = match (by_name, args.ticket_file.as_deref()) {
        (Some(name), None) => return Ok(PeerChoice::Name(name.to_lowercase())),
        (Some(_), Some(_)) => return Err(ticket::two()),
        (None, file) => ticket::found(argument, file)?,
    };
    let found = found.ok_or_else(|| {
        let hint = "name a known peer, or pass its ticket by --ticket-file, by RC3_TICKET, or as `-`";
        Error::usage("no peer", hint)
    })?;
    let name = args.name.clone().unwrap_or_else(|| found.host().to_owned()).to_lowercase();
    if name.is_empty() || name.starts_with('#') || name.contains(char::is_whitespace) {
        let message = "a peer's name is one word without `#` at its start";
        return Err(Error::usage(message, "choose another --name"));
    }
    Ok(PeerChoice::Ticket(found, name))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{
        cli::low::{LowArgs, LowCommand},
        transfer::ticket::{Fingerprint, Secret, Ticket},
    };

    fn parsed(words: &[&str]) -> TunnelArgs {
        let words = [&["rc3", "tunnel", "--state", "/state"], words].concat();
        let LowCommand::Tunnel(args) = LowArgs::try_parse_from(words).unwrap().command else {
            panic!("not a tunnel")
        };
        args
    }

    fn peer(words: &[&str]) -> PeerChoice {
        parsed(words).peer().unwrap()
    }

    fn refused(words: &[&str]) -> String {
        parsed(words).peer().unwrap_err().to_string()
    }

    #[test]
    fn several_forwards_go_to_one_peer() {
        let words = ["-L", "1:a:2", "-L3:b:4", "-R", "5:c:6", "-D", "7", "--stdio", "Far"];
        let args = parsed(&words);
        assert_eq!((args.local.len(), args.remote.len(), args.dynamic.len()), (2, 1, 1));
        assert_eq!(args.stdio, Some("localhost:22".parse().unwrap()));
        assert_eq!(args.peer().unwrap(), PeerChoice::Name("far".to_owned()));
        assert_eq!(parsed(&["--stdio=h:5", "far"]).stdio, Some("h:5".parse().unwrap()));
    }

    #[test]
    fn a_ticket_names_its_host() {
        let ticket = Ticket::new("Far.example", 1, Fingerprint([1; 32]), Secret([1; 16])).unwrap();
        let line = ticket.to_string();
        let expected = PeerChoice::Ticket(ticket.clone(), "far.example".to_owned());
        assert_eq!(peer(&["-D1", &line]), expected);
        let expected = PeerChoice::Ticket(ticket, "far".to_owned());
        assert_eq!(peer(&["-D1", &line, "--name", "far"]), expected);
        assert!(refused(&["-D1", &line, "--name", "a b"]).contains("one word"));
    }

    #[test]
    fn the_listening_side_allows_what_it_names() {
        let args = parsed(&["--listen"]);
        assert_eq!((args.allow_remote_listen, args.no_ticket, args.allow.len()), (None, false, 0));
        let words = ["--listen", "--allow-remote-listen", "--allow", "a:1", "--allow", "*:2", "--no-ticket"];
        let args = parsed(&words);
        assert_eq!(
            (args.allow_remote_listen, args.no_ticket, args.allow.len()),
            (Some(RemoteListen::Loopback), true, 2)
        );
        let args = parsed(&["--listen", "--allow-remote-listen=any"]);
        assert_eq!(args.allow_remote_listen, Some(RemoteListen::Any));
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(refused(&["far"]), "nothing to forward");
        assert!(refused(&["-D1", "far", "--ticket-file", "f"]).starts_with("two tickets"));
        for words in [&["--listen", "-D1"][..], &["--listen", "far"], &["-D", "x", "far"]] {
            let words = [&["rc3", "tunnel"], words].concat();
            assert!(LowArgs::try_parse_from(&words).is_err(), "{words:?}");
        }
    }
}
