//! The meaning of the command line: resolves settings, fills in dependent defaults, rejects invalid combinations.

use std::{io, net::SocketAddr, path::PathBuf};

use clap_complete::Shell;
use rc3_net::{Congestion, RlpMode, marks::MarkChoice};
#[cfg(unix)]
use rc3_text::units::size_text;
use thiserror::Error;

#[cfg(unix)]
use super::low::DemoArgs;
use super::low::{
    CongestionChoice, DoctorArgs, LowArgs, LowCommand, MarksChoice, NetworkArgs, RecvArgs, RlpChoice,
    SendArgs,
};
use super::ticket;
#[cfg(unix)]
use crate::{
    demo::{
        links::Links,
        scenario::{RUNS_MAX, Runs, SIZE_BYTES_MAX, SIZES_MAX, Scenario},
    },
    emulator::EmulatorConfig,
};
use crate::{
    doctor::fingerprint,
    transfer::{
        destination::Policy,
        network::{self, Marking, Network},
        paths::printable_path,
        progress::Style,
        receive::ReceiveJob,
        send::{PATIENCE, SendJob},
        ticket::{Ticket, TicketError},
    },
};

/// A command ready to run.
#[derive(Debug)]
pub enum Command {
    /// Show both schemes.
    #[cfg(unix)]
    Demo {
        /// The scenarios to run.
        scenarios: Box<Links<Scenario>>,
        /// JSON instead of text.
        json: bool,
        /// A picture file.
        svg: Option<PathBuf>,
    },
    /// Receive files.
    Recv(ReceiveJob, Style),
    /// Send files.
    Send(SendJob, Style),
    /// Check this host, and a path.
    Doctor(DoctorJob),
    /// Answer checks from another host.
    DoctorListen {
        /// Network settings.
        network: Network,
        /// Address to listen on.
        bind: Option<SocketAddr>,
        /// Address in the ticket, instead of that of the default route.
        advertise: Option<(String, Option<u16>)>,
        /// File for the ticket, instead of printing it.
        ticket_file: Option<PathBuf>,
    },
    /// Completions.
    Completions(Shell),
    /// Manual pages: all into a directory, or the first to standard output.
    Man(Option<PathBuf>),
}

/// What to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoctorJob {
    /// The path to the peer with this ticket; `None`: only this host.
    pub ticket: Option<Ticket>,
    /// JSON instead of text.
    pub json: bool,
    /// Network settings.
    pub network: Network,
}

/// Why a well-formed command line is invalid.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UsageError {
    /// See [`TicketError`].
    #[error("not a ticket: {0}")]
    Ticket(#[from] TicketError),
    /// No ticket on standard input.
    #[error("cannot read the ticket from standard input: {0}")]
    Input(io::Error),
    /// The file has no ticket.
    #[error("cannot read the ticket from {}: {error}", printable_path(path))]
    TicketFile {
        /// The file.
        path: PathBuf,
        /// The system error.
        error: io::Error,
    },
    /// A ticket as an argument, and another in a file.
    #[error("two tickets: one as an argument, one by --ticket-file")]
    TwoTickets,
    /// No ticket anywhere.
    #[error("no ticket")]
    NoTicket,
    /// A ticket, but no files to send.
    #[error("no file or directory to send")]
    NoPath,
    /// Too many sizes, or one too large.
    #[cfg(unix)]
    #[error("choose at most {SIZES_MAX} sizes from 1 byte to {}", size_text(SIZE_BYTES_MAX))]
    Sizes,
    /// A link that cannot be emulated.
    #[cfg(unix)]
    #[error("choose a round trip of at most 10 s and a buffer of at least 3000 bytes")]
    Link,
}

impl UsageError {
    /// What the user can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Ticket(_) | Self::Input(_) | Self::TicketFile { .. } | Self::NoTicket => {
                "pass it by --ticket-file FILE, by RC3_TICKET, or as last argument: TICKET, or `-` for standard input"
            }
            Self::NoPath => "name files and directories before the ticket: rc3 send PATH... -",
            Self::TwoTickets => "omit one of them",
            #[cfg(unix)]
            Self::Sizes | Self::Link => "see rc3 demo --help",
        }
    }
}

impl Command {
    /// Resolves the command line.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub fn resolve(low: LowArgs) -> Result<Self, UsageError> {
        Ok(match low.command {
            #[cfg(unix)]
            LowCommand::Demo(args) => {
                let (json, svg) = (args.json, args.svg.clone());
                Self::Demo { scenarios: Box::new(scenarios(args)?), json, svg }
            }
            LowCommand::Recv(args) => recv(args),
            LowCommand::Send(args) => send(args)?,
            LowCommand::Doctor(args) => doctor(args)?,
            LowCommand::Completions { shell } => Self::Completions(shell),
            LowCommand::Man { out } => Self::Man(out),
        })
    }
}

#[cfg(unix)]
fn scenarios(args: DemoArgs) -> Result<Links<Scenario>, UsageError> {
    // Choosing one of these selects a single link.
    let is_chosen = args.queue.is_some() || args.nic.is_some() || args.buffer.is_some();
    let link = scenario(args)?;
    let fast_card = (!is_chosen).then(|| link.with_fast_card());
    Ok(Links { link, fast_card })
}

#[cfg(unix)]
fn scenario(args: DemoArgs) -> Result<Scenario, UsageError> {
    use std::time::Duration;
    let sizes_fit = args.sizes.iter().all(|&bytes| (1..=SIZE_BYTES_MAX).contains(&bytes));
    if args.sizes.is_empty() || args.sizes.len() > SIZES_MAX || !sizes_fit {
        return Err(UsageError::Sizes);
    }
    // Computed as in the emulator.
    let default = || EmulatorConfig::new(args.rate, args.rtt).buffer;
    let buffer = args.buffer.map_or_else(default, |buffer| buffer.bytes(args.rate, args.rtt));
    if args.rtt > Duration::from_secs(10) || buffer < 3000 {
        return Err(UsageError::Link);
    }
    Ok(Scenario {
        rate: args.rate,
        rtt: args.rtt,
        buffer,
        nic: args.nic.unwrap_or(args.rate),
        loss: args.loss,
        load: args.load,
        queue: args.queue.unwrap_or_default(),
        rlp: rlp(args.rlp),
        forget: args.forget,
        ladder: rc3_core::Ladder::geometric(40, 10, args.levels),
        sizes: args.sizes,
        runs: args.runs.map_or(Runs::USUAL, |runs| Runs::Exactly(runs.min(RUNS_MAX))),
        seed: args.seed,
    })
}

fn doctor(args: DoctorArgs) -> Result<Command, UsageError> {
    let DoctorArgs { ticket, ticket_file, listen, bind, advertise, json, network } = args;
    let network = self::network(network);
    if listen {
        return Ok(Command::DoctorListen { network, bind, advertise, ticket_file });
    }
    let named = ticket::named(ticket.as_deref(), ticket_file.as_deref())?;
    // The variable may hold a ticket for `rc3 send`, which the doctor must ignore.
    let found = match named {
        Some(ticket) => Some(ticket),
        None => ticket::in_environment()?.filter(|ticket| ticket.fingerprint() == fingerprint()),
    };
    Ok(Command::Doctor(DoctorJob { ticket: found, json, network }))
}

fn rlp(choice: RlpChoice) -> RlpMode {
    match choice {
        RlpChoice::Guard => RlpMode::Guard,
        RlpChoice::Trust => RlpMode::Trust,
        RlpChoice::Off => RlpMode::Off,
    }
}

fn congestion(choice: CongestionChoice) -> Congestion {
    match choice {
        CongestionChoice::Cubic => Congestion::Cubic,
        CongestionChoice::Newreno => Congestion::NewReno,
        CongestionChoice::Kickass => Congestion::KickAss,
    }
}

fn network(args: NetworkArgs) -> Network {
    let marking = match args.marks {
        MarksChoice::Auto => Marking::Found,
        MarksChoice::Le => Marking::Chosen(MarkChoice::LowerEffort),
        MarksChoice::Cs1 => Marking::Chosen(MarkChoice::Cs1),
        MarksChoice::None => Marking::Chosen(MarkChoice::None),
        MarksChoice::Raised => Marking::Chosen(MarkChoice::Raised),
        MarksChoice::PerLevel => Marking::PerLevel,
    };
    let path_memory = if args.no_path_memory { None } else { args.path_memory.or_else(network::path_memory) };
    Network { marking, path_memory }
}

fn recv(args: RecvArgs) -> Command {
    let style = Style::choose(args.output.json, args.output.quiet);
    let qlog = args.output.qlog.or_else(rc3_net::qlog::directory_from_env);
    let policy = Policy { force: args.force, fsync: args.fsync, discard_partial: args.discard_partial };
    let rlp = rlp(args.rlp);
    let network = network(args.network);
    let RecvArgs { dir, listen, advertise, ticket_file, keep, .. } = args;
    Command::Recv(ReceiveJob { dir, listen, advertise, ticket_file, keep, policy, qlog, rlp, network }, style)
}

fn send(args: SendArgs) -> Result<Command, UsageError> {
    let SendArgs { mut paths, ticket_file, dry_run, rate_limit, mtu, network, .. } = args;
    let argument = paths.pop_if(|last| ticket::is_ticket(last.as_os_str()));
    let argument = argument.map(|argument| argument.to_string_lossy().into_owned());
    let named = ticket::named(argument.as_deref(), ticket_file.as_deref())?;
    let ticket = match named {
        Some(ticket) => ticket,
        None => ticket::in_environment()?.ok_or(UsageError::NoTicket)?,
    };
    if paths.is_empty() {
        return Err(UsageError::NoPath);
    }
    let style = Style::choose(args.output.json, args.output.quiet);
    let qlog = args.output.qlog.or_else(rc3_net::qlog::directory_from_env);
    let (rlp, congestion) = (rlp(args.rlp), congestion(args.congestion));
    let network = self::network(network);
    let patience = PATIENCE;
    let job = SendJob { paths, ticket, dry_run, rate_limit, rlp, congestion, mtu, network, qlog, patience };
    Ok(Command::Send(job, style))
}

#[cfg(all(test, unix))]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;
    use crate::{demo::queue::Queue, emulator::Discipline};

    fn resolve(words: &[&str]) -> Result<Command, UsageError> {
        Command::resolve(LowArgs::try_parse_from(words).unwrap())
    }

    #[test]
    fn demo_without_flags_is_the_default_link() {
        let Ok(Command::Demo { scenarios, json: false, svg: None }) = resolve(&["rc3", "demo"]) else {
            panic!("not a demonstration")
        };
        let Links { link: scenario, fast_card: Some(fast_card) } = *scenarios else {
            panic!("a single link")
        };
        assert_eq!(scenario.rate.bits_per_second(), 200_000_000);
        assert_eq!((scenario.nic, scenario.rtt), (scenario.rate, Duration::from_millis(80)));
        assert_eq!(scenario.buffer, 2_000_000);
        assert_eq!(scenario.sizes, [10_000, 100_000, 1_000_000, 5_000_000, 20_000_000]);
        assert_eq!(scenario.ladder, rc3_core::Ladder::default());
        assert_eq!((scenario.queue, scenario.runs), (Queue::Prio, Runs::USUAL));
        assert_eq!((fast_card.queue, fast_card.runs), (Queue::Fifo, Runs::BESIDE));
        assert!(!scenario.forget && fast_card.forget);
        assert_eq!((fast_card.nic.bits_per_second(), fast_card.buffer), (2_000_000_000, 1_000_000));
    }

    #[test]
    fn card_and_buffer_follow_the_link_by_default() {
        let words = ["rc3", "demo", "--rate", "50mbit", "--rtt", "20ms", "--runs", "1", "--sizes", "10k,1M"];
        let Ok(Command::Demo { scenarios, .. }) = resolve(&words) else { panic!("not a demonstration") };
        let scenario = &scenarios.link;
        assert_eq!((scenario.nic, scenario.buffer), (scenario.rate, 125_000));
        assert_eq!((scenario.sizes.as_slice(), scenario.runs), (&[10_000, 1_000_000][..], Runs::Exactly(1)));
        assert_eq!(scenarios.fast_card.map(|fast| fast.runs), Some(Runs::Exactly(1)));
        let words = ["rc3", "demo", "--nic", "2gbit", "--buffer", "1MiB"];
        let Ok(Command::Demo { scenarios, .. }) = resolve(&words) else { panic!("not a demonstration") };
        assert_eq!((scenarios.link.nic.bits_per_second(), scenarios.link.buffer), (2_000_000_000, 1 << 20));
        assert_eq!(scenarios.fast_card, None);
    }

    #[test]
    fn queues_have_names_and_buffers_come_in_products() {
        let disciplines = [
            ("prio", Discipline::Priority),
            ("fifo", Discipline::Fifo),
            ("fq", Discipline::FlowFair),
            ("policer", Discipline::Policer),
        ];
        for (name, discipline) in disciplines {
            let words = ["rc3", "demo", "--queue", name, "--buffer", "0.1bdp"];
            let Ok(Command::Demo { scenarios, .. }) = resolve(&words) else { panic!("not a demonstration") };
            assert_eq!((scenarios.link.queue.discipline(), scenarios.link.buffer), (discipline, 200_000));
            assert_eq!(scenarios.fast_card, None, "the user chose a queue");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(matches!(resolve(&["rc3", "demo", "--sizes", "0"]), Err(UsageError::Sizes)));
        assert!(matches!(resolve(&["rc3", "demo", "--sizes", "2GiB"]), Err(UsageError::Sizes)));
        assert!(matches!(resolve(&["rc3", "demo", "--rtt", "1000s"]), Err(UsageError::Link)));
        assert!(matches!(resolve(&["rc3", "demo", "--buffer", "0.001bdp"]), Err(UsageError::Link)));
        assert!(matches!(resolve(&["rc3", "send", "a", "rc3://b"]), Err(UsageError::Ticket(_))));
    }
}
