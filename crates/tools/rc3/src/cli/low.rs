//! The command line as typed: one definition per flag, from which help, man page and completions follow.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6},
    path::PathBuf,
    sync::LazyLock,
    time::Duration,
};

use clap::{Args, Parser, Subcommand, value_parser};
use clap_complete::Shell;
use rc3_core::units::Rate;
use rc3_text::units::{UnitError, parse_rate, parse_size, parse_time};
use serde::{Deserialize, Serialize};

use super::{exit::Exit, tunnel::TunnelArgs};
use crate::{
    check::plan::CheckPlan,
    copy::{self, cli::CopyArgs},
    error::Error,
    rendezvous::{self, code::Place},
    transfer::{
        attributes::Preserve,
        destination::{Existing, Fsync, Policy},
        manifest::Selection,
        message,
        network::Marking,
        outage::GIVE_UP_RANGE,
        patterns::Patterns,
        progress::Style,
        ticket::{parts, positive},
    },
    tunnel::control,
};
use crate::{demo::buffer::Buffer, emulator::Discipline};

/// What `rc3 --version` prints.
static VERSIONS: LazyLock<String> = LazyLock::new(|| {
    let wire = rc3_core::ALPN_VERSION;
    let [transfer, copy] = [message::VERSION, copy::VERSION];
    let [tunnel, meet] = [control::VERSION, rendezvous::VERSION];
    let version = env!("CARGO_PKG_VERSION");
    format!("{version}\nwire {wire}, transfer {transfer}, copy {copy}, tunnel {tunnel}, meet {meet}")
});

/// Fast first round trips over wide-area links: a demonstration, and verified file transfer.
#[derive(Debug, Clone, Parser)]
#[command(name = "rc3", version, long_version = VERSIONS.as_str(), after_help = Exit::HELP, max_term_width = 100)]
pub struct LowArgs {
    /// The command.
    #[command(subcommand)]
    pub command: LowCommand,
}

/// The commands.
#[derive(Debug, Clone, Subcommand)]
pub enum LowCommand {
    /// Compare rc3 with plain QUIC over an emulated wide-area link on this machine
    Demo(DemoArgs),
    /// Receive files: prints a ticket for the sender
    Recv(RecvArgs),
    /// Send files and directories to the holder of a ticket
    Send(SendArgs),
    /// Let senders and receivers meet of which neither can be reached
    Meet(MeetArgs),
    /// Copy files to or from another host, where ssh starts rc3
    Copy(Box<CopyArgs>),
    /// The far end of `rc3 copy`, on standard input and output
    #[command(hide = true)]
    CopyPeer {
        /// How it listens, in one word
        listening: Option<String>,
    },
    /// Check this host's sockets, and with a second host the path between them: marks, lengths, rc3 beside plain QUIC
    Check(CheckArgs),
    /// Carry TCP connections to and from another host, such as ssh
    Tunnel(TunnelArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write one per command
    Man {
        /// Write `rc3.1`, `rc3-send.1` and so on into this directory
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

/// `rc3 demo`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Real endpoints on loopback sockets send real data over an emulated link. FCT is from connect to the last \
byte at the receiver, handshake included; every transfer is compared on arrival. Byte counts are the \
receiver's, of the run with the median FCT. In the JSON output, rlp_bytes lists level 1 first.

Without --nic, --queue and --buffer, a second table repeats the transfers under worse conditions: the card is ten \
times as fast as the link, a FIFO of half the buffer ignores marks, and --forget is set. In JSON it is fast_card.")]
pub struct DemoArgs {
    /// Rate of the link
    #[arg(long, default_value = "200mbit", value_parser = rate)]
    pub rate: Rate,
    /// Round-trip time of the link
    #[arg(long, default_value = "80ms", value_parser = parse_time)]
    pub rtt: Duration,
    /// Buffer of the link, or bucket of the policer, in bytes or like 0.5bdp [default: one bandwidth-delay product]
    #[arg(long, value_name = "SIZE", value_parser = Buffer::parse)]
    pub buffer: Option<Buffer>,
    /// Speed of the sender's network card, to which RLP is paced [default: the rate of the link]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub nic: Option<Rate>,
    /// Probability that a packet is lost, 0 to 1
    #[arg(long, default_value_t = 0.0, value_name = "P", value_parser = parse_probability)]
    pub loss: f64,
    /// Background traffic at normal priority, as a fraction of the rate, 0 to 0.999999
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", value_parser = parse_load)]
    pub load: f64,
    /// Sizes to send, separated by commas
    #[arg(long, default_value = "10k,100k,1M,5M,20M", value_delimiter = ',', value_parser = parse_size)]
    pub sizes: Vec<u64>,
    /// Runs per size and scheme [default: 3, or fewer if they take longer than half a minute]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=100))]
    pub runs: Option<u32>,
    /// RLP levels: 40, 400, 4000, ... packets, the last level has the rest
    #[arg(long, default_value_t = 7, value_name = "N", value_parser = value_parser!(u8).range(1..=15))]
    pub levels: u8,
    /// Queue in front of the link [default: prio]
    #[arg(long, value_enum)]
    pub queue: Option<Discipline>,
    /// How rc3 uses low priority: off compares plain QUIC with itself
    #[arg(long, value_enum, default_value_t = RlpChoice::Guard, value_name = "MODE")]
    pub rlp: RlpChoice,
    /// Forget the link's rate after each transfer
    #[arg(long)]
    pub forget: bool,
    /// Print one JSON object and no other output
    #[arg(long)]
    pub json: bool,
    /// Draw FCT over size into a file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Seed of the data, the losses and the background traffic
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
}

/// `rc3 recv`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Anyone with the ticket can send you files: treat it like a password. A file gets its name when it is complete and \
verified; until then it is `.NAME.TAG.rc3-part`, with at most its final permissions. Incomplete files stay when the \
connection breaks, the disk is full, or this program is interrupted or killed: run the same two commands again, and \
only what is missing is sent (a file below 1 MiB is sent again as a whole). Delete `.*.rc3-part` files that you do not \
want to complete.

Files that already exist with the same content are not sent; they get the sender's time, and lose permission bits that \
the sender's file lacks. Files that exist with other content are not replaced, but listed at the end, with exit code 5; \
all others arrive. Permission bits and times are kept as by `scp -p`, less the umask, without setuid, setgid and \
sticky. A symbolic link is made only if it cannot lead out of the directory.

Pipes: rc3 recv --stdout | tar x. The exit code is 0 only if the whole stream arrived and its hash matched. Bytes that \
were written before a failure cannot be taken back: check the exit code before you use them (in bash: set -o pipefail). \
A pipe cannot be continued after an interruption.")]
pub struct RecvArgs {
    /// Write files only below this directory
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub dir: PathBuf,
    /// Write the ticket to this file, readable only by you, instead of printing it; it is removed at the end
    #[arg(long, value_name = "FILE")]
    pub ticket_file: Option<PathBuf>,
    /// UDP address to listen on: IP:PORT, IP, or :PORT [default: any address, any free port]
    #[arg(long, alias = "listen", value_name = "ADDR", value_parser = parse_bind)]
    pub bind: Option<SocketAddr>,
    /// Address in the ticket, instead of those of this host
    #[arg(long, value_name = "HOST[:PORT]", value_parser = parse_advertise)]
    pub advertise: Option<(String, Option<u16>)>,
    /// Keep the receiver's identity in this file, made on first use and readable only by you: with the same --bind
    /// port the ticket is valid in every run
    #[arg(long, value_name = "FILE", requires = "bind")]
    pub identity: Option<PathBuf>,
    /// Write the stream of `rc3 send -` to standard output; the ticket goes to standard error
    #[arg(long, conflicts_with_all = ["dir", "keep", "force", "keep_both", "quick_check", "fsync", "discard_partial", "json", "xattrs", "acls", "hard_links"])]
    pub stdout: bool,
    /// Print a code for a sender that comes to this rendezvous, instead of a ticket [default: the variable RC3_MEET]
    #[arg(long, value_name = "HOST[:PORT]", num_args = 0..=1)]
    pub meet: Option<Option<Place>>,
    /// Continue after the first complete transfer, and serve up to 4 senders at a time; with --meet one, and each by a new
    /// code
    #[arg(long)]
    pub keep: bool,
    /// Serve metrics for Prometheus at http://ADDR/metrics
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<SocketAddr>,
    /// What happens to files that exist, and to incomplete ones
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// What else to keep of files
    #[command(flatten)]
    pub preserve: Preserve,
    /// Write to disk: each file before it gets its name, with names and directories (file), or everything before the
    /// end is reported (end)
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Fsync::None)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "file")]
    pub fsync: Fsync,
    /// Whether low priority is used
    #[arg(long, value_enum, default_value_t = RlpChoice::Guard, value_name = "MODE")]
    pub rlp: RlpChoice,
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

/// `rc3 send`
#[derive(Debug, Clone, Args)]
#[command(
    override_usage = "rc3 send [OPTIONS] PATH... [TICKET|CODE|-]",
    after_help = "\
The ticket or code is a secret. Pass it by --ticket-file, by the variable RC3_TICKET, or with a last argument `-` on \
standard input. The ticket itself may be the last argument, but then every user of this machine can see it in the list of \
processes.

Directories are sent with their whole content. Symbolic links inside a directory are skipped with a warning unless \
--links is given; a link given as PATH is followed. If anything was skipped, the exit code is 7. After an interruption \
run the same command again: it sends only what the receiver does not have yet.

A PATTERN without `/` matches names at any depth. One with `/` matches whole paths, which begin with the name of PATH; \
one that ends in `/` matches only directories. `*` and `?` stop at `/`, `**` does not.

--dry-run asks the receiver and prints for each file: send, continue (a part exists), same, replace, keep-both, \
conflict or left-out.

Pipes: tar c . | rc3 send - TICKET sends standard input to rc3 recv --stdout, or with --name FILE to a receiver that \
writes files. If the command before the pipe fails, rc3 sees only the end of its output: set -o pipefail in bash. A pipe \
cannot be continued after an interruption."
)]
pub struct SendArgs {
    /// Files and directories, or `-` alone for standard input; then the ticket unless it comes from elsewhere
    #[arg(required = true, num_args = 1.., value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Read the ticket from this file
    #[arg(long, value_name = "FILE")]
    pub ticket_file: Option<PathBuf>,
    /// The rendezvous of a code [default: that in the code, or the variable RC3_MEET]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub meet: Option<Place>,
    /// Name of the file that a receiver without --stdout writes, for `rc3 send -`
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub name: Option<String>,
    /// Only list what would happen to each file
    #[arg(long)]
    pub dry_run: bool,
    /// Which files
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// What else to keep of files
    #[command(flatten)]
    pub preserve: Preserve,
    /// Send at most at this average rate
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate_limit: Option<Rate>,
    /// How both loops send
    #[command(flatten)]
    pub loops: LoopArgs,
    /// Try packets up to this long, IP header included: 9000 if the whole path supports jumbo frames
    /// [default: 1500, on loopback 8192]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1280..))]
    pub mtu: Option<u16>,
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

/// `rc3 meet`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Run it where both sides reach UDP. `rc3 recv --meet HOST` prints a code, `rc3 send PATH CODE` takes it; the data goes \
directly, through most NATs. With --relay it goes through this host where nothing else works. This host learns \
addresses, times and lengths, and neither names nor content. See docs/COPY.md.")]
pub struct MeetArgs {
    /// UDP address to listen on: IP:PORT, IP, or :PORT [default: any address, port 4435]
    #[arg(long, alias = "listen", value_name = "ADDR", value_parser = parse_bind)]
    pub bind: Option<SocketAddr>,
    /// Relay datagrams of ends that cannot reach each other, at this UDP port [default: any free port]
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub relay: Option<u16>,
    /// Relay at most this much of each of up to 32 pairs
    #[arg(long, value_name = "RATE", default_value = "10mbit", value_parser = rate, requires = "relay")]
    pub relay_rate: Rate,
}

/// `rc3 check`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Without a ticket, only this host is checked. For the path between two hosts, run `rc3 check --listen` on one, and \
`rc3 check` with its ticket on the other.

First, about 2.5 MB of probes in a few seconds show which DSCPs survive, with which marks normal-priority packets \
overtake low-priority ones, and how long packets may be. Overtaking shows only if a queue forms on the path. Marks with \
which packets overtook are remembered for `rc3 send --marks auto` to that host.

Then both plain QUIC, which is the same transport without low priority, and rc3 send flows: run by run and size by \
size, one flow in turn, each on a new connection; the bulk flows follow. Everything is sent from memory, and compared \
on arrival. For a quick look: --sizes 5M --runs 1 --seconds 0 --both.

FCT is from connect to the last byte at the receiver, handshake included, by this host's clock. For a flow to the \
listener, it is the time until the listener's reply to the last byte, less half of the smallest round trip. A flow \
from the listener begins with this host's request, half a round trip after the handshake.

Anyone with the ticket can make the listener send and receive, one check at a time: up to 32 sizes of at most 1 GB, \
100 runs, and 600 s of bulk flow. The listener remembers paths only until it is probed again, or ends.

You can also pass the ticket by --ticket-file or the variable RC3_TICKET. As an argument it is visible to every user \
of this machine in the list of processes; `-` reads it from standard input.")]
pub struct CheckArgs {
    /// The line that `rc3 check --listen` printed on another host, or `-` to read it from standard input
    #[arg(value_name = "TICKET", conflicts_with = "listen")]
    pub ticket: Option<String>,
    /// Read the ticket from this file; with --listen, write it there, readable only by you
    #[arg(long, value_name = "FILE")]
    pub ticket_file: Option<PathBuf>,
    /// Answer another host until interrupted; prints a ticket
    #[arg(long)]
    pub listen: bool,
    /// UDP address to listen on: IP:PORT, IP, or :PORT [default: any address, any free port]
    #[arg(long, alias = "address", value_name = "ADDR", value_parser = parse_bind, requires = "listen")]
    pub bind: Option<SocketAddr>,
    /// Address in the ticket, instead of those of this host
    #[arg(long, value_name = "HOST[:PORT]", value_parser = parse_advertise, requires = "listen")]
    pub advertise: Option<(String, Option<u16>)>,
    /// Check only these parts, separated by commas [default: all]
    #[arg(long, value_enum, value_name = "PARTS", value_delimiter = ',', conflicts_with = "listen")]
    pub only: Vec<CheckPart>,
    /// The flows
    #[command(flatten)]
    pub plan: CheckPlan,
    /// Print one JSON event per line: host, path, start, flow, bulk, result, bulk_result, done, error
    #[arg(long, conflicts_with = "listen")]
    pub json: bool,
    /// Draw FCT over size into FILE.svg or FILE.png
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    pub picture: Option<PathBuf>,
    /// Network settings
    #[command(flatten)]
    pub network: NetworkArgs,
}

/// A part of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CheckPart {
    /// The sockets of this host
    Host,
    /// Marks, overtaking and lengths of packets on the path
    Probes,
    /// rc3 beside plain QUIC on the path
    Flows,
}

/// What happens to files that exist, and to incomplete ones.
// Frames of `rc3 copy` carry it: a change needs another `copy::VERSION`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct PolicyArgs {
    /// Replace files that exist with other content
    #[arg(long, conflicts_with = "keep_both")]
    pub force: bool,
    /// Keep files that exist with other content, and store the new ones as `NAME (1).EXT`
    #[arg(long)]
    pub keep_both: bool,
    /// Take an existing file of the same size and modification time for the same, without comparing the content
    #[arg(long)]
    pub quick_check: bool,
    /// Delete incomplete files instead of keeping them for the next run
    #[arg(long)]
    pub discard_partial: bool,
}

impl PolicyArgs {
    pub(crate) fn resolve(self, fsync: Fsync, preserve: Preserve) -> Policy {
        let existing = match (self.force, self.keep_both) {
            (true, _) => Existing::Replace,
            (false, true) => Existing::KeepBoth,
            (false, false) => Existing::Report,
        };
        let Self { quick_check, discard_partial, .. } = self;
        Policy { existing, quick_check, fsync, discard_partial, preserve }
    }
}

/// Which files of directories are sent.
// Frames of `rc3 copy` carry it: a change needs another `copy::VERSION`.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct SelectionArgs {
    /// Send symbolic links inside directories as links
    #[arg(long)]
    pub links: bool,
    /// Send only files that match; repeatable
    #[arg(long, value_name = "PATTERN")]
    pub include: Vec<String>,
    /// Do not send what matches; repeatable, stronger than --include
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
}

impl SelectionArgs {
    /// # Errors
    /// When a pattern is malformed.
    pub(crate) fn resolve(&self, preserve: Preserve) -> Result<Selection, Error> {
        let hint = "`rc3 send --help` describes patterns; quote them in a shell";
        let wrong = |error| Error::usage(format!("not a pattern: {error}"), hint);
        let patterns = Patterns::new(&self.include, &self.exclude).map_err(wrong)?;
        Ok(Selection { links: self.links, patterns, preserve })
    }
}

/// Network settings.
#[derive(Debug, Clone, Args)]
pub struct NetworkArgs {
    /// Marks of the packets (DSCP)
    #[arg(long, value_enum, default_value_t = Marking::Auto, value_name = "MARKS")]
    pub marks: Marking,
    /// Remember paths in this file for a day: destinations, rates, round trips [default: rc3/paths in
    /// $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "FILE", conflicts_with = "no_path_memory")]
    pub path_memory: Option<PathBuf>,
    /// Neither use nor store remembered paths
    #[arg(long)]
    pub no_path_memory: bool,
    /// Give up when the other side has answered nothing for this long; the lower value of both sides counts
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_give_up_after)]
    #[arg(alias = "idle-timeout")]
    pub give_up_after: Duration,
}

/// What the gateway is asked for.
#[derive(Debug, Clone, Copy, Args)]
pub struct GatewayArgs {
    /// Do not ask the gateway to map a UDP port for the other side (PCP, NAT-PMP), as copies and codes do
    #[arg(long)]
    pub no_port_mapping: bool,
}

impl GatewayArgs {
    /// Whether it is asked.
    pub(crate) fn maps_ports(self) -> bool {
        !self.no_port_mapping
    }
}

/// Whether RLP is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub enum RlpChoice {
    /// At the rate at which the path delivers, yielding to the queues of others
    Guard,
    /// Always: you know that the network honours priorities
    Trust,
    /// Never: plain QUIC
    Off,
}

/// How both loops of a sender send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct LoopArgs {
    /// Whether low priority is used; never through ssh
    #[arg(long, value_enum, default_value_t = RlpChoice::Guard, value_name = "MODE")]
    pub rlp: RlpChoice,
    /// Congestion control of normal-priority packets
    #[arg(long, value_enum, default_value_t = CongestionChoice::Cubic, value_name = "CONTROL")]
    pub congestion: CongestionChoice,
    /// Yield to all other traffic: everything at low priority, and almost nothing while a link is busy
    #[arg(long, conflicts_with_all = ["rlp", "congestion"])]
    pub background: bool,
}

/// Congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub enum CongestionChoice {
    /// RFC 9438
    Cubic,
    /// RFC 9002
    Newreno,
    /// Rates signalled by routers, such as `kickass forward`; New Reno without signals
    Kickass,
}

/// Output of a transfer.
#[derive(Debug, Clone, Args)]
pub struct OutputArgs {
    /// Print one JSON event per line: listening, skipped, dropped, misleading, retrying, silent, waiting, start, progress, file,
    /// done, conflict, damaged, would, error
    #[arg(long, conflicts_with = "quiet")]
    pub json: bool,
    /// Print only errors (and the ticket)
    #[arg(long)]
    pub quiet: bool,
    /// Write qlog files of the connections into this directory [default: the variable QLOGDIR]
    #[arg(long, value_name = "DIR")]
    pub qlog: Option<PathBuf>,
}

impl OutputArgs {
    /// The form of the output.
    pub fn style(&self) -> Style {
        Style::choose(self.json, self.quiet)
    }

    /// The directory for qlog files.
    pub(crate) fn qlog(&self) -> Option<PathBuf> {
        self.qlog.clone().or_else(rc3_net::qlog::directory_from_env)
    }
}

fn parse_give_up_after(text: &str) -> Result<Duration, String> {
    let time = parse_time(text).map_err(|error| error.to_string())?;
    if GIVE_UP_RANGE.contains(&time) { Ok(time) } else { Err("choose a time from 100ms to 7d".to_owned()) }
}

pub(crate) fn rate(text: &str) -> Result<Rate, UnitError> {
    parse_rate(text).map(Rate::from)
}

fn parse_probability(text: &str) -> Result<f64, String> {
    let number = text.trim().parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "choose a number from 0 to 1, for example 0.01".to_owned())
}

/// Closer to 0, the gaps between packets are longer than any time; closer to 1, the ideal is.
fn parse_load(text: &str) -> Result<f64, String> {
    let load = parse_probability(text).ok();
    let load = load.filter(|load| *load == 0.0 || (0.000_001..=0.999_999).contains(load));
    load.ok_or_else(|| "choose 0, or a number from 0.000001 to 0.999999".to_owned())
}

pub(super) fn parse_bind(text: &str) -> Result<SocketAddr, String> {
    let wrong = || "write IP:PORT, [IPV6]:PORT, IP or :PORT".to_owned();
    let bracketed = text.strip_prefix('[').and_then(|inner| inner.split_once("]:"));
    let (host, port) = bracketed.unwrap_or((text, "0"));
    if let Some((address, zone)) = host.split_once('%') {
        let address = address.parse().map_err(|_| wrong())?;
        let port = port.parse().map_err(|_| wrong())?;
        let index = zone.parse().or_else(|_| getifaddrs::if_nametoindex(zone));
        let index = index.map_err(|_| format!("there is no interface {zone}"))?;
        return Ok(SocketAddrV6::new(address, port, 0, index).into());
    }
    let port = text.strip_prefix(':').and_then(|port| port.parse().ok());
    text.parse::<SocketAddr>()
        .ok()
        .or_else(|| Some(SocketAddr::new(text.parse::<IpAddr>().ok()?, 0)))
        .or_else(|| Some(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port?)))
        .ok_or_else(wrong)
}

pub(crate) fn parse_advertise(text: &str) -> Result<(String, Option<u16>), String> {
    let wrong = || "write HOST, HOST:PORT or [IPV6]:PORT".to_owned();
    // An address without brackets, perhaps with a zone.
    if text.split('%').next().is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok()) {
        return Ok((text.to_owned(), None));
    }
    match parts(text).as_deref() {
        Some([host]) if !host.is_empty() => Ok(((*host).to_owned(), None)),
        Some([host, port]) if !host.is_empty() => {
            Ok(((*host).to_owned(), Some(positive(port).ok_or_else(wrong)?)))
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn definition_is_consistent() {
        LowArgs::command().debug_assert();
    }

    #[test]
    fn paths_and_a_ticket_are_arguments_of_send() {
        let words = ["rc3", "send", "a", "b", "rc3://h:1/#c", "--ticket-file", "f"];
        let LowCommand::Send(args) = LowArgs::parse_from(words).command else { panic!("not a send") };
        assert_eq!((args.paths.len(), args.ticket_file), (3, Some(PathBuf::from("f"))));
        assert!(LowArgs::try_parse_from(["rc3", "send"]).is_err());
    }

    #[test]
    fn addresses_may_be_abbreviated() {
        assert_eq!(parse_bind("127.0.0.1:5"), Ok("127.0.0.1:5".parse().unwrap()));
        assert_eq!(parse_bind("::1"), Ok("[::1]:0".parse().unwrap()));
        assert_eq!(parse_bind(":7"), Ok("[::]:7".parse().unwrap()));
        for zoned in ["[fe80::1%1]:0", "fe80::1%1"] {
            assert_eq!(parse_bind(zoned), Ok("[fe80::1%1]:0".parse().unwrap()));
        }
        for wrong in ["localhost", "[fe80::1%1", "10.0.0.1%1", "[fe80::1%1]:x"] {
            assert!(parse_bind(wrong).is_err(), "{wrong}");
        }
        let error = parse_bind("[fe80::1%no-such-link]:0").unwrap_err();
        assert_eq!(error, "there is no interface no-such-link");
        assert_eq!(parse_advertise("h:7"), Ok(("h".to_owned(), Some(7))));
        assert_eq!(parse_advertise("2001:db8::1"), Ok(("2001:db8::1".to_owned(), None)));
        assert_eq!(parse_advertise("fe80::1%eth0"), Ok(("fe80::1%eth0".to_owned(), None)));
        assert_eq!(parse_advertise("[::1]:7"), Ok(("::1".to_owned(), Some(7))));
        assert_eq!(parse_advertise("[::1]"), Ok(("::1".to_owned(), None)));
        for wrong in ["", ":7", "h:0", "h:x", "[::1", "[::1]7", "a:b:c", "h:7:7", "[]:7"] {
            assert!(parse_advertise(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn loads_and_probabilities_have_their_ranges() {
        assert_eq!((parse_load("0"), parse_load(" 0.3")), (Ok(0.0), Ok(0.3)));
        assert_eq!((parse_load("0.000001"), parse_load("0.999999")), (Ok(1e-6), Ok(0.999_999)));
        for text in ["1", "-0.1", "NaN", "1e-25", "0.9999999999999999", "x"] {
            assert!(parse_load(text).is_err(), "{text}");
        }
        assert_eq!((parse_probability("1"), parse_probability("1e-25")), (Ok(1.0), Ok(1e-25)));
        assert!(parse_probability("1.1").is_err() && parse_probability("NaN").is_err());
    }
}
