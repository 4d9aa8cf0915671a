//! The meaning of the command line: resolves settings, fills in dependent defaults, rejects invalid combinations.

use std::{net::SocketAddr, path::PathBuf};

use clap_complete::Shell;
use rc3_net::{Congestion, RlpMode, marks::MarkChoice};
use rc3_picture::Format;
use rc3_text::units::size_text;

use super::{
    low::{
        CheckArgs, CheckPart, CongestionChoice, DemoArgs, LowArgs, LowCommand, MeetArgs, NetworkArgs,
        RecvArgs, RlpChoice, SendArgs,
    },
    ticket,
    tunnel::{self, TunnelCommand},
};
use crate::{
    check::{CheckJob, listen, plan, visit::VisitJob},
    copy::CopyJob,
    demo::{
        DemoJob,
        links::Links,
        scenario::{DemoScenario, RUNS_MAX, Runs, SIZE_BYTES_MAX, SIZES_MAX},
    },
    emulator::EmulatorConfig,
    error::{Error, Result},
    transfer::{
        destination::Fsync,
        meet::Settings,
        network::{self, Network},
        paths::printable_path,
        progress::Style,
        receive::ReceiveJob,
        send::{Content, SendJob},
    },
};

/// A command ready to run.
#[derive(Debug)]
pub enum Command {
    /// Show both schemes.
    Demo(Box<DemoJob>),
    /// Receive files, or a pipe; the address is that of the metrics.
    Recv(Box<ReceiveJob>, Style, Option<SocketAddr>),
    /// Send files, or a pipe.
    Send(Box<SendJob>, Style),
    /// Serve as a rendezvous.
    Meet(MeetArgs),
    /// Copy by ssh.
    Copy(Box<CopyJob>, Style),
    /// Serve a copy.
    CopyPeer {
        /// How it listens.
        listening: Option<String>,
    },
    /// Check this host, and a path.
    Check(Box<CheckJob>),
    /// Answer checks of another host.
    CheckListen(Box<CheckArgs>),
    /// Carry TCP connections.
    Tunnel(Box<TunnelCommand>),
    /// Completions.
    Completions(Shell),
    /// Manual pages: all into a directory, or the first to standard output.
    Man(Option<PathBuf>),
}

impl Command {
    /// Resolves the command line.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`](crate::error::ErrorKind::Usage) when flags do not fit together.
    pub fn resolve(low: LowArgs) -> Result<Self> {
        Ok(match low.command {
            LowCommand::Demo(args) => {
                let (style, svg) = (Style::choose(args.json, false), args.svg.clone());
                Self::Demo(Box::new(DemoJob { scenarios: scenarios(args)?, style, svg }))
            }
            LowCommand::Recv(args) => recv(args)?,
            LowCommand::Send(args) => send(args)?,
            LowCommand::Meet(args) => Self::Meet(args),
            LowCommand::Copy(args) => {
                let style = args.output.style();
                Self::Copy(Box::new(args.resolve()?), style)
            }
            LowCommand::CopyPeer { listening } => Self::CopyPeer { listening },
            LowCommand::Check(args) => check(args)?,
            LowCommand::Tunnel(args) => Self::Tunnel(Box::new(tunnel::resolve(args)?)),
            LowCommand::Completions { shell } => Self::Completions(shell),
            LowCommand::Man { out } => Self::Man(out),
        })
    }
}

fn scenarios(args: DemoArgs) -> Result<Links<DemoScenario>> {
    // Choosing one of these selects a single link.
    let is_chosen = args.queue.is_some() || args.nic.is_some() || args.buffer.is_some();
    let link = scenario(args)?;
    let fast_card = (!is_chosen).then(|| link.with_fast_card());
    Ok(Links { link, fast_card })
}

fn scenario(args: DemoArgs) -> Result<DemoScenario> {
    use std::time::Duration;
    let sizes_fit = args.sizes.iter().all(|&bytes| (1..=SIZE_BYTES_MAX).contains(&bytes));
    if args.sizes.is_empty() || args.sizes.len() > SIZES_MAX || !sizes_fit {
        let most = size_text(SIZE_BYTES_MAX);
        let message = format!("choose at most {SIZES_MAX} sizes from 1 byte to {most}");
        return Err(Error::usage(message, "see rc3 demo --help"));
    }
    // Computed as in the emulator.
    let default = || EmulatorConfig::new(args.rate, args.rtt).buffer;
    let buffer = args.buffer.map_or_else(default, |buffer| buffer.bytes(args.rate, args.rtt));
    if args.rtt > Duration::from_secs(10) || buffer < 3000 {
        let message = "choose a round trip of at most 10 s and a buffer of at least 3000 bytes";
        return Err(Error::usage(message, "see rc3 demo --help"));
    }
    let queue = args.queue.unwrap_or_default();
    // The link recognises levels by their code points.
    let marks = MarkChoice::PerLevel.into();
    let DemoArgs { rate, rtt, loss, load, seed, .. } = args;
    Ok(DemoScenario {
        emulated: EmulatorConfig { rate, rtt, buffer, loss, load, queue, marks, seed },
        nic: args.nic.unwrap_or(rate),
        rlp: rlp(args.rlp),
        forget: args.forget,
        ladder: rc3_core::Ladder::geometric(40, 10, args.levels),
        sizes: args.sizes,
        runs: args.runs.map_or(Runs::USUAL, |runs| Runs::Exactly(runs.min(RUNS_MAX))),
    })
}

fn check(args: CheckArgs) -> Result<Command> {
    if args.listen {
        return Ok(Command::CheckListen(Box::new(args)));
    }
    let CheckArgs { ticket, ticket_file, only, plan, .. } = args;
    let network = self::network(args.network);
    if !plan.is_bounded() {
        let message = format!("choose at most {} sizes from 1 byte to 1 GB", plan::SIZES_MAX);
        return Err(Error::usage(message, "see rc3 check --help"));
    }
    let format = |path: PathBuf| match Format::of(&path) {
        Some(format) => Ok((path, format)),
        None => {
            let message = format!("the format of the picture {} is unknown", printable_path(&path));
            Err(Error::usage(message, "choose a name that ends in .svg or .png"))
        }
    };
    let picture = args.picture.map(format).transpose()?;
    let has = |part| only.is_empty() || only.contains(&part);
    let (host, probes) = (has(CheckPart::Host), has(CheckPart::Probes));
    let plan = has(CheckPart::Flows).then_some(plan);
    let found = || ticket::found(ticket.as_deref(), ticket_file.as_deref());
    let ticket = match (only.is_empty(), probes || plan.is_some()) {
        (true, _) => found()?,
        (false, true) => Some(found()?.ok_or_else(ticket::none)?),
        (false, false) => None,
    };
    let visit = ticket.map(|ticket| VisitJob { ticket, probes, plan, network, patience: listen::PATIENCE });
    Ok(Command::Check(Box::new(CheckJob { host, visit, style: Style::choose(args.json, false), picture })))
}

/// The mode that a user chose.
pub fn rlp(choice: RlpChoice) -> RlpMode {
    match choice {
        RlpChoice::Guard => RlpMode::Guard,
        RlpChoice::Trust => RlpMode::Trust,
        RlpChoice::Off => RlpMode::Off,
    }
}

pub(crate) fn congestion(choice: CongestionChoice) -> Congestion {
    match choice {
        CongestionChoice::Cubic => Congestion::Cubic,
        CongestionChoice::Newreno => Congestion::NewReno,
        CongestionChoice::Kickass => Congestion::KickAss,
    }
}

pub(crate) fn network(args: NetworkArgs) -> Network {
    let path_memory = if args.no_path_memory { None } else { args.path_memory.or_else(network::path_memory) };
    Network { marking: args.marks, path_memory, give_up_after: args.give_up_after }
}

fn recv(args: RecvArgs) -> Result<Command> {
    let style = args.output.style();
    // Other systems cannot sync a whole file system.
    let is_possible = args.fsync != Fsync::End || cfg!(target_os = "linux");
    let policy = args.policy.resolve(if is_possible { args.fsync } else { Fsync::File }, args.preserve);
    let RecvArgs { dir, bind, advertise, identity, ticket_file, keep, .. } = args;
    let meet = args.meet.map(ticket::place).transpose()?;
    let dir = (!args.stdout).then_some(dir);
    let settings = Settings {
        rlp: rlp(args.rlp),
        network: network(args.network),
        qlog: args.output.qlog(),
        ..Settings::default()
    };
    let job = ReceiveJob { dir, bind, advertise, identity, ticket_file, meet, keep, policy, settings };
    Ok(Command::Recv(Box::new(job), style, args.metrics))
}

fn send(args: SendArgs) -> Result<Command> {
    let SendArgs { mut paths, ticket_file, name, dry_run, rate_limit, mtu, .. } = args;
    let selection = args.selection.resolve(args.preserve)?;
    // `-` alone is standard input, and the ticket comes from elsewhere.
    let is_alone = paths.len() == 1 && paths[0].as_os_str() == "-";
    let argument = paths.pop_if(|last| !is_alone && ticket::is_ticket(last.as_os_str()));
    let is_pipe = paths.first().is_some_and(|path| path.as_os_str() == "-");
    let reads_ticket = argument.as_deref().is_some_and(|last| last.as_os_str() == "-")
        || ticket_file.as_deref().is_some_and(|path| path.as_os_str() == "-");
    if (is_pipe && (paths.len() > 1 || reads_ticket || dry_run)) || (!is_pipe && name.is_some()) {
        let message = "`-` for standard input stands alone before the ticket";
        let hint = "write: rc3 send - TICKET, with --name FILE if the receiver writes files";
        return Err(Error::usage(message, hint));
    }
    let argument = argument.map(|argument| argument.to_string_lossy().into_owned());
    let invitation = ticket::invitation(argument.as_deref(), ticket_file.as_deref(), args.meet)?;
    let missing = paths.last().filter(|last| !is_pipe && last.symlink_metadata().is_err());
    let invitation = invitation
        .ok_or_else(|| missing.map_or_else(ticket::none, |last| ticket::neither(last.as_os_str())))?;
    if paths.is_empty() {
        let hint = "name files and directories before the ticket: rc3 send PATH... -";
        return Err(Error::usage("no file or directory to send", hint));
    }
    let settings = Settings {
        rlp: rlp(args.rlp),
        congestion: congestion(args.congestion),
        mtu,
        network: network(args.network),
        qlog: args.output.qlog(),
        ..Settings::default()
    };
    let content = if is_pipe { Content::Input(name) } else { Content::Paths(paths) };
    let style = args.output.style();
    let job = SendJob { content, selection, invitation, dry_run, rate_limit, settings };
    Ok(Command::Send(Box::new(job), style))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;
    use crate::{
        check::plan::CheckPlan,
        emulator::Discipline,
        error::ErrorKind,
        transfer::ticket::{Fingerprint, Secret, Ticket},
    };

    fn resolve(words: &[&str]) -> Result<Command> {
        Command::resolve(LowArgs::try_parse_from(words).unwrap())
    }

    fn refused(words: &[&str]) -> String {
        let error = resolve(&[&["rc3"], words].concat()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        error.to_string()
    }

    fn demo(words: &[&str]) -> Links<DemoScenario> {
        let Ok(Command::Demo(job)) = resolve(words) else { panic!("not a demonstration") };
        job.scenarios
    }

    #[test]
    fn demo_without_flags_is_the_default_link() {
        let Ok(Command::Demo(job)) = resolve(&["rc3", "demo"]) else { panic!("not a demonstration") };
        assert!(job.style != Style::Json && job.svg.is_none());
        let Links { link: scenario, fast_card: Some(fast_card) } = job.scenarios else {
            panic!("a single link")
        };
        assert_eq!(scenario.emulated.rate.bits_per_second(), 200_000_000);
        assert_eq!(
            (scenario.nic, scenario.emulated.rtt),
            (scenario.emulated.rate, Duration::from_millis(80))
        );
        assert_eq!(scenario.emulated.buffer, 2_000_000);
        assert_eq!(scenario.sizes, [10_000, 100_000, 1_000_000, 5_000_000, 20_000_000]);
        assert_eq!(scenario.ladder, rc3_core::Ladder::default());
        assert_eq!((scenario.emulated.queue, scenario.runs), (Discipline::Priority, Runs::USUAL));
        assert_eq!((fast_card.emulated.queue, fast_card.runs), (Discipline::Fifo, Runs::BESIDE));
        assert!(!scenario.forget && fast_card.forget);
        assert_eq!((fast_card.nic.bits_per_second(), fast_card.emulated.buffer), (2_000_000_000, 1_000_000));
    }

    #[test]
    fn card_and_buffer_follow_the_link_by_default() {
        let words = ["rc3", "demo", "--rate", "50mbit", "--rtt", "20ms", "--runs", "1", "--sizes", "10k,1M"];
        let scenarios = demo(&words);
        let scenario = &scenarios.link;
        assert_eq!((scenario.nic, scenario.emulated.buffer), (scenario.emulated.rate, 125_000));
        assert_eq!((scenario.sizes.as_slice(), scenario.runs), (&[10_000, 1_000_000][..], Runs::Exactly(1)));
        assert_eq!(scenarios.fast_card.map(|fast| fast.runs), Some(Runs::Exactly(1)));
        let words = ["rc3", "demo", "--nic", "2gbit", "--buffer", "1MiB"];
        let scenarios = demo(&words);
        assert_eq!(
            (scenarios.link.nic.bits_per_second(), scenarios.link.emulated.buffer),
            (2_000_000_000, 1 << 20)
        );
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
            let scenarios = demo(&words);
            assert_eq!(
                (scenarios.link.emulated.queue, scenarios.link.emulated.buffer),
                (discipline, 200_000)
            );
            assert_eq!(scenarios.fast_card, None, "the user chose a queue");
        }
    }

    #[test]
    fn a_check_is_of_this_host_or_of_a_path_and_draws_what_can_be_drawn() {
        let ticket = Ticket::new("h", 1, Fingerprint([1; 32]), Secret([1; 16])).unwrap().to_string();
        let with = |flags: &[&str]| resolve(&[&["rc3", "check", &ticket], flags].concat());
        let visit = |flags: &[&str]| match with(flags) {
            Ok(Command::Check(job)) => (job.host, job.visit.map(|visit| (visit.probes, visit.plan))),
            other => panic!("not a check: {other:?}"),
        };
        let plan =
            CheckPlan { sizes: vec![10_000, 1_000_000], runs: 5, seconds: 5, both: true, forget: false };
        let flags = ["--sizes", "10k,1M", "--both"];
        assert_eq!(visit(&flags), (true, Some((true, Some(plan.clone())))));
        let only = |parts| visit(&[&flags[..], &["--only", parts]].concat());
        assert_eq!(only("flows"), (false, Some((false, Some(plan)))));
        assert_eq!(only("host,probes"), (true, Some((true, None))));
        assert_eq!(only("host"), (true, None));
        assert_eq!(refused(&["check", "--only", "probes"]), "no ticket");
        let Ok(Command::Check(job)) = with(&["--picture", "a.PNG"]) else { panic!("not a check") };
        assert_eq!(job.picture, Some((PathBuf::from("a.PNG"), Format::Png)));
        assert!(refused(&["check", &ticket, "--sizes", "2G"]).contains("at most 32 sizes"));
        assert!(
            refused(&["check", &ticket, "--picture", "a.gif"]).contains("the format of the picture a.gif")
        );
        let words = ["rc3", "check", "--listen", "--address", "127.0.0.1:7"];
        let Ok(Command::CheckListen(args)) = resolve(&words) else { panic!("not a listener") };
        assert_eq!(args.bind, Some("127.0.0.1:7".parse().unwrap()));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(refused(&["demo", "--sizes", "0"]).contains("at most 32 sizes"));
        assert!(refused(&["demo", "--sizes", "2GiB"]).contains("to 1GiB"));
        assert!(refused(&["demo", "--rtt", "1000s"]).contains("a round trip of at most 10 s"));
        assert!(refused(&["demo", "--buffer", "0.001bdp"]).contains("a buffer of at least"));
        assert!(refused(&["send", "a", "rc3://b"]).starts_with("not a ticket: "));
    }
}
