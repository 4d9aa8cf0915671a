//! The meaning of the command line: resolves settings, fills in dependent defaults, rejects invalid combinations.

use std::path::PathBuf;

use rc3_net::{Congestion, RlpMode, marks::MarkChoice};
use rc3_picture::Format;
use rc3_text::units::size_text;

use super::{
    low::{
        CheckArgs, CheckPart, CongestionChoice, DemoArgs, LoopArgs, NetworkArgs, RecvArgs, RlpChoice,
        SendArgs,
    },
    ticket,
};
use crate::{
    check::{CheckJob, listen, plan, visit::VisitJob},
    demo::{
        DemoJob,
        links::Links,
        scenario::{DemoScenario, Runs, SIZE_BYTES_MAX, SIZES_MAX},
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

impl DemoArgs {
    /// The demonstration.
    ///
    /// # Errors
    /// When flags do not fit together, like those of the other commands.
    pub fn resolve(self) -> Result<DemoJob> {
        let (style, svg) = (Style::choose(self.json, false), self.svg.clone());
        Ok(DemoJob { scenarios: scenarios(self)?, style, svg })
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
        runs: args.runs.map_or(Runs::USUAL, Runs::Exactly),
    })
}

impl CheckArgs {
    /// The check of this host and a path.
    ///
    /// # Errors
    /// When flags do not fit together, or the ticket is none.
    pub fn resolve(self) -> Result<CheckJob> {
        let Self { ticket, ticket_file, only, plan, .. } = self;
        let network = network(self.network);
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
        let picture = self.picture.map(format).transpose()?;
        let has = |part| only.is_empty() || only.contains(&part);
        let (host, probes) = (has(CheckPart::Host), has(CheckPart::Probes));
        let plan = has(CheckPart::Flows).then_some(plan);
        let found = || ticket::found(ticket.as_deref(), ticket_file.as_deref());
        let ticket = match (only.is_empty(), probes || plan.is_some()) {
            (true, _) => found()?,
            (false, true) => Some(found()?.ok_or_else(ticket::none)?),
            (false, false) => None,
        };
        let visit =
            ticket.map(|ticket| VisitJob { ticket, probes, plan, network, patience: listen::PATIENCE });
        if picture.is_some() && visit.as_ref().is_none_or(|visit| visit.plan.is_none()) {
            let hint = "add the ticket of the other host, and `flows` to --only";
            return Err(Error::usage("a picture shows flows, and this check has none", hint));
        }
        Ok(CheckJob { host, visit, style: Style::choose(self.json, false), picture })
    }
}

/// The mode that a user chose.
pub fn rlp(choice: RlpChoice) -> RlpMode {
    match choice {
        RlpChoice::Guard => RlpMode::Guard,
        RlpChoice::Trust => RlpMode::Trust,
        RlpChoice::Off => RlpMode::Off,
    }
}

impl LoopArgs {
    /// The controller that a user chose.
    pub(crate) fn congestion(self) -> Congestion {
        match self.congestion {
            _ if self.background => Congestion::Background,
            CongestionChoice::Cubic => Congestion::Cubic,
            CongestionChoice::Newreno => Congestion::NewReno,
            CongestionChoice::Kickass => Congestion::KickAss,
        }
    }
}

pub(crate) fn network(args: NetworkArgs) -> Network {
    let path_memory = if args.no_path_memory { None } else { args.path_memory.or_else(network::path_memory) };
    Network { marking: args.marks, path_memory, give_up_after: args.give_up_after, ..Network::default() }
}

impl RecvArgs {
    /// The receiver.
    ///
    /// # Errors
    /// When there is no rendezvous, or an option does not go with one.
    pub fn resolve(self) -> Result<ReceiveJob> {
        // Other systems cannot sync a whole file system.
        let is_possible = self.fsync != Fsync::End || cfg!(target_os = "linux");
        let policy = self.policy.resolve(if is_possible { self.fsync } else { Fsync::File }, self.preserve);
        let Self { dir, bind, advertise, identity, ticket_file, keep, .. } = self;
        let meet = self.meet.map(ticket::place).transpose()?;
        if meet.is_some() {
            let reason = "the two ends find each other's addresses by themselves";
            let forgets = "a code is for one transfer, and its sender has no list of receivers that it knows";
            let shows = "a code is for people, and good for one try";
            let refused = [
                ("--advertise", advertise.is_some(), reason),
                ("--identity", identity.is_some(), forgets),
                ("--ticket-file", ticket_file.is_some(), shows),
            ];
            if let Some((flag, _, why)) = refused.into_iter().find(|(_, is_given, _)| *is_given) {
                let hint = format!("leave out {flag}, or --meet if the sender can reach this host");
                return Err(Error::usage(format!("{flag} does not go with --meet: {why}"), hint));
            }
        }
        let dir = (!self.stdout).then_some(dir);
        let settings = Settings {
            rlp: rlp(self.rlp),
            network: Network { maps_ports: self.gateway.maps_ports(), ..network(self.network) },
            qlog: self.output.qlog(),
            ..Settings::default()
        };
        Ok(ReceiveJob { dir, bind, advertise, identity, ticket_file, meet, keep, policy, settings })
    }
}

impl SendArgs {
    /// What to send to whom.
    ///
    /// # Errors
    /// When arguments do not fit together, or there is no ticket.
    pub fn resolve(self) -> Result<SendJob> {
        let Self { mut paths, ticket_file, name, dry_run, rate_limit, mtu, .. } = self;
        let selection = self.selection.resolve(self.preserve)?;
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
        let invitation = ticket::invitation(argument.as_deref(), ticket_file.as_deref(), self.meet)?;
        let missing = paths.last().filter(|last| !is_pipe && last.symlink_metadata().is_err());
        let invitation = invitation
            .ok_or_else(|| missing.map_or_else(ticket::none, |last| ticket::neither(last.as_os_str())))?;
        if paths.is_empty() {
            let hint = "name files and directories before the ticket: rc3 send PATH... -";
            return Err(Error::usage("no file or directory to send", hint));
        }
        let settings = Settings {
            rlp: rlp(self.loops.rlp),
            congestion: self.loops.congestion(),
            mtu,
            network: Network { maps_ports: self.gateway.maps_ports(), ..network(self.network) },
            qlog: self.output.qlog(),
            ..Settings::default()
        };
        let content = if is_pipe { Content::Input(name) } else { Content::Paths(paths) };
        Ok(SendJob { content, selection, invitation, dry_run, rate_limit, settings })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;
    use crate::{
        check::plan::CheckPlan,
        cli::low::{LowArgs, LowCommand},
        emulator::Discipline,
        error::ErrorKind,
        transfer::ticket::{Fingerprint, Secret, Ticket},
    };

    fn parsed(words: &[&str]) -> LowCommand {
        LowArgs::try_parse_from([&["rc3"], words].concat()).unwrap().command
    }

    fn refused(words: &[&str]) -> String {
        let resolved = match parsed(words) {
            LowCommand::Demo(args) => args.resolve().map(drop),
            LowCommand::Send(args) => args.resolve().map(drop),
            LowCommand::Check(args) => args.resolve().map(drop),
            other => panic!("{other:?} has no test"),
        };
        let error = resolved.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        error.to_string()
    }

    fn demo(words: &[&str]) -> DemoJob {
        let LowCommand::Demo(args) = parsed(words) else { panic!("not a demonstration") };
        args.resolve().unwrap()
    }

    #[test]
    fn demo_without_flags_is_the_default_link() {
        let job = demo(&["demo"]);
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
        let words = ["demo", "--rate", "50mbit", "--rtt", "20ms", "--runs", "1", "--sizes", "10k,1M"];
        let scenarios = demo(&words).scenarios;
        let scenario = &scenarios.link;
        assert_eq!((scenario.nic, scenario.emulated.buffer), (scenario.emulated.rate, 125_000));
        assert_eq!((scenario.sizes.as_slice(), scenario.runs), (&[10_000, 1_000_000][..], Runs::Exactly(1)));
        assert_eq!(scenarios.fast_card.map(|fast| fast.runs), Some(Runs::Exactly(1)));
        let words = ["demo", "--nic", "2gbit", "--buffer", "1MiB"];
        let scenarios = demo(&words).scenarios;
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
            let words = ["demo", "--queue", name, "--buffer", "0.1bdp"];
            let scenarios = demo(&words).scenarios;
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
        let check = |flags: &[&str]| match parsed(&[&["check", &ticket], flags].concat()) {
            LowCommand::Check(args) => args.resolve().unwrap(),
            other => panic!("not a check: {other:?}"),
        };
        let visit = |flags: &[&str]| {
            let job = check(flags);
            (job.host, job.visit.map(|visit| (visit.probes, visit.plan)))
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
        assert_eq!(check(&["--picture", "a.PNG"]).picture, Some((PathBuf::from("a.PNG"), Format::Png)));
        for without_flows in [&["check"][..], &["check", &ticket, "--only", "host,probes"]] {
            let refused = refused(&[without_flows, &["--picture", "a.png"]].concat());
            assert!(refused.contains("this check has none"), "{refused}");
        }
        assert!(refused(&["check", &ticket, "--sizes", "2G"]).contains("at most 32 sizes"));
        assert!(
            refused(&["check", &ticket, "--picture", "a.gif"]).contains("the format of the picture a.gif")
        );
        let words = ["check", "--listen", "--address", "127.0.0.1:7"];
        let LowCommand::Check(args) = parsed(&words) else { panic!("not a listener") };
        assert!(args.listen);
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
