//! The `kickass` command: runs the subcommand and turns its result into an exit code.
#![forbid(unsafe_code)]

use std::{io, process::ExitCode};

use clap::{CommandFactory, Parser};
use kickass_tools::{
    args::{DecodeArgs, EncodeArgs, KickassArgs, KickassCommand},
    codes::{self, CodeError},
};
use rc3_cli::{exit::CommandExit, manual, output};
use serde_json::Value;

const NAME: &str = "kickass";

fn main() -> ExitCode {
    // Usage errors exit here, with code 2.
    let exit = match KickassArgs::parse().command {
        KickassCommand::Encode(EncodeArgs { rates, json }) => {
            let json = json.then_some(codes::encoded_json as fn(&_) -> _);
            report(rates.into_iter().map(codes::encode).collect(), json, codes::encoded_text)
        }
        KickassCommand::Decode(DecodeArgs { lengths, json }) => {
            let json = json.then_some(codes::decoded_json as fn(&_) -> _);
            report(lengths.into_iter().map(codes::decode).collect(), json, codes::decoded_text)
        }
        #[cfg(target_os = "linux")]
        KickassCommand::Forward(args) => forward::run(&args),
        #[cfg(target_os = "linux")]
        KickassCommand::Probe(args) => probe::run(&args),
        KickassCommand::Completions { shell } => finish(manual::complete(KickassArgs::command(), shell)),
        KickassCommand::Man { out } => finish(manual::write(KickassArgs::command(), out.as_deref())),
    };
    exit.into()
}

/// Prints the result as text or as JSON.
fn report<T>(
    found: Result<Vec<T>, CodeError>,
    json: Option<fn(&T) -> Value>,
    text: fn(&[T]) -> String,
) -> CommandExit {
    match (found, json) {
        (Ok(found), None) => finish(output::print(&text(&found))),
        (Ok(found), Some(json)) => {
            let lines = found.iter().map(|one| format!("{}\n", json(one)));
            finish(output::print(&lines.collect::<String>()))
        }
        (Err(error), _) => {
            output::complain(NAME, &error, error.hint());
            CommandExit::Failure
        }
    }
}

fn finish(done: io::Result<()>) -> CommandExit {
    CommandExit::of(NAME, done)
}

#[cfg(target_os = "linux")]
mod forward {
    use std::{
        io::{self, Write},
        sync::mpsc::{channel, sync_channel},
        thread,
        time::Duration,
    };

    use kickass_tools::{
        args::ForwardArgs,
        forward::{
            config::{Config, ForwardConfig},
            error::ForwardError,
            run::{self, ForwarderEvent},
        },
    };
    use rc3_cli::{exit::CommandExit, output};
    use serde_json::json;

    use super::NAME;

    /// Texts that wait for a slow reader.
    const TEXTS_MAX: usize = 64;
    /// How long the last ones may take at the end.
    const PATIENCE: Duration = Duration::from_secs(1);

    pub(super) fn run(args: &ForwardArgs) -> CommandExit {
        let done = match args.check {
            true => run::load(&args.config).map(|config| say(&checked(&config))),
            false => forward(args),
        };
        match done {
            Ok(()) => CommandExit::Success,
            Err(error) => {
                output::complain(NAME, &error, error.hint());
                if matches!(error, ForwardError::Config(_)) {
                    CommandExit::Usage
                } else {
                    CommandExit::Failure
                }
            }
        }
    }

    /// Prints in a thread of its own: a reader that stalls must hold up neither packets nor signals.
    fn forward(args: &ForwardArgs) -> Result<(), ForwardError> {
        let (texts, waiting) = sync_channel::<(fn(&str), String)>(TEXTS_MAX);
        let (printing, printed) = channel::<()>();
        let mut printer = Some(move || {
            for (print, text) in waiting {
                print(&text);
            }
            drop(printing);
        });
        let done = run::run(&args.config, |event| {
            // Not before the first event: until then there are privileges, which a thread would keep.
            if let Some(printer) = printer.take() {
                // Without a thread nothing is printed, and forwarding continues.
                let _ = thread::Builder::new().name("printer".to_owned()).spawn(printer);
            }
            // What finds no room is dropped.
            let _ = texts.try_send(report(&event, args.json));
        });
        drop((texts, printer));
        let _ = printed.recv_timeout(PATIENCE);
        done
    }

    fn say(text: &str) {
        // Standard error may be closed.
        let _ = writeln!(io::stderr(), "{NAME}: {text}");
    }

    fn show(text: &str) {
        // If standard output is closed, forwarding continues.
        let _ = output::print(text);
    }

    /// What a valid configuration is.
    fn checked(config: &Config) -> String {
        let ports = names(config).join(", ");
        let ForwardConfig { offload, coalesce, .. } = &config.forward;
        match offload {
            true => {
                format!("valid: ports {ports}; offload on, segments wait up to {coalesce:?} for each other")
            }
            false => format!("valid: ports {ports}; offload off"),
        }
    }

    fn names(config: &Config) -> Vec<&str> {
        config.port.iter().map(|port| port.name.as_str()).collect()
    }

    /// A text and how to print it. Text other than numbers goes to standard error; JSON goes to standard output.
    fn report(event: &ForwarderEvent<'_>, json: bool) -> (fn(&str), String) {
        let text = match event {
            ForwarderEvent::Ready(config) => {
                let ports = names(config);
                if !json {
                    return (say, format!("forwarding between {}", ports.join(", ")));
                }
                format!("{}\n", json!({ "event": "ready", "ports": ports }))
            }
            ForwarderEvent::Reloaded if json => format!("{}\n", json!({ "event": "reloaded" })),
            ForwarderEvent::Reloaded => return (say, "reloaded".to_owned()),
            ForwarderEvent::NotReloaded(error) if json => {
                format!("{}\n", json!({ "event": "not_reloaded", "error": error.to_string() }))
            }
            ForwarderEvent::NotReloaded(error) => {
                return (say, format!("{error}; the old configuration stays"));
            }
            ForwarderEvent::Statistics { totals, uptime, .. } if json => totals.json("statistics", *uptime),
            ForwarderEvent::Statistics { totals, earlier, interval, .. } => totals.text(*earlier, *interval),
            ForwarderEvent::Stopped(totals, uptime) if json => totals.json("stopped", *uptime),
            ForwarderEvent::Stopped(totals, uptime) => {
                format!("{:.1} s in total:\n{}", uptime.as_secs_f64(), totals.text(None, *uptime))
            }
        };
        (show, text)
    }
}

#[cfg(target_os = "linux")]
mod probe {
    use std::{fs, io, path::Path};

    use kickass_tools::{
        args::{PROBE_PORT, ProbeArgs},
        probe::{
            listen,
            report::ProbeReport,
            sweep::{SweepPlan, sweep},
        },
    };
    use rc3_cli::{exit::CommandExit, output};
    use rc3_picture::Format;

    use super::{NAME, finish};

    pub(super) fn run(args: &ProbeArgs) -> CommandExit {
        let Some(target) = args.target else { return finish(answer(args)) };
        let plan = SweepPlan { target, tries: args.tries, interval: args.interval };
        let shown = sweep(&plan).and_then(|report| {
            output::print(&if args.json { report.json()? } else { report.text() })?;
            if let Some(path) = &args.picture {
                draw(&report, &target.ip().to_string(), path)?;
            }
            Ok(report.is_answered())
        });
        match shown {
            Ok(true) => CommandExit::Success,
            Ok(false) => {
                output::complain(
                    NAME,
                    &"the other host did not answer",
                    "check that kickass probe --listen runs there and that firewalls pass UDP",
                );
                CommandExit::Failure
            }
            Err(error) => finish(Err(error)),
        }
    }

    fn answer(args: &ProbeArgs) -> io::Result<()> {
        let socket = listen::bind(args.bind, PROBE_PORT)?;
        output::print(&format!("listening at {}\n", socket.local_addr()?))?;
        listen::serve(&socket)
    }

    fn draw(report: &ProbeReport, target: &str, path: &Path) -> io::Result<()> {
        // The command line has checked the name.
        let format = Format::of(path).unwrap_or(Format::Svg);
        fs::write(path, format.draw(&report.chart(target))?)
    }
}
