//! Traces of one world: captures of links, and the time line of a flow's sender.

use std::{
    fs::{self, File},
    io::{self, BufWriter},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use rc3_sim::{
    agent::Flow,
    scenario::Run,
    simulation::{Simulation, SimulationError},
    topology::Site,
    trace::{Pcap, Timeline},
    world::LinkId,
};
use thiserror::Error;

use super::args::SimTraceArgs;

/// Why there are no traces.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The scenario has fewer worlds.
    #[error("there is no world {0}, the scenario makes {1}")]
    NoWorld(usize, usize),
    /// Fewer flows arrive.
    #[error("there is no flow {0}")]
    NoFlow(u64),
    /// The topology has no such link.
    #[error("there is no link {0}")]
    NoLink(Site),
    /// See [`SimulationError`].
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// A trace cannot be written.
    #[error("cannot write the traces: {0}")]
    Write(#[from] io::Error),
}

impl TraceError {
    /// What to do next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoWorld(..) => "rc3-lab sim run --json NAME prints a line for each world",
            Self::NoFlow(_) => {
                "raise measure.flows or choose a smaller number; flows of closed loops cannot be followed"
            }
            Self::NoLink(_) => "hosts and routers are counted from 0, and only neighbours are joined",
            Self::Simulation(_) => "check topology, load and number of flows of the scenario",
            Self::Write(_) => "check free space and permissions, or choose another --out",
        }
    }

    /// Whether the fault is in the command line.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::Write(_))
    }
}

/// The result of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traced {
    /// The world's label.
    pub world: String,
    /// The flow followed.
    pub flow: Flow,
    /// The files.
    pub files: Vec<PathBuf>,
}

/// A file that is written while the world runs, with its first error.
struct Output<T> {
    to: T,
    error: Option<io::Error>,
}

impl<T> Output<T> {
    fn new(to: T) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { to, error: None }))
    }

    fn write(shared: &Mutex<Self>, write: impl FnOnce(&mut T) -> io::Result<()>) {
        let mut output = shared.lock().unwrap_or_else(PoisonError::into_inner);
        if output.error.is_none() {
            let written = write(&mut output.to);
            output.error = written.err();
        }
    }

    fn close(shared: &Mutex<Self>, flush: impl FnOnce(&mut T) -> io::Result<()>) -> io::Result<()> {
        let mut output = shared.lock().unwrap_or_else(PoisonError::into_inner);
        match output.error.take() {
            Some(error) => Err(error),
            None => flush(&mut output.to),
        }
    }
}

/// Runs a world until all measured flows have ended and writes its traces.
///
/// # Errors
/// See [`TraceError`].
pub fn trace(runs: &[Run], plan: &SimTraceArgs) -> Result<Traced, TraceError> {
    let folder = plan.out.as_path();
    let world = plan.world.checked_sub(1).and_then(|at| runs.get(at));
    let run = world.ok_or(TraceError::NoWorld(plan.world, runs.len()))?;
    let flow = plan.flow.checked_sub(1).filter(|&place| place < run.measure.flows);
    let place = flow.and_then(|place| usize::try_from(run.measure.warm_up.saturating_add(place)).ok());
    let flow = place.and_then(|place| run.flows().nth(place)).ok_or(TraceError::NoFlow(plan.flow))?;
    let sites = if plan.link.is_empty() { vec![Site::Uplink(flow.from)] } else { plan.link.clone() };
    let find = |site: Site| Ok((site, site.link(&run.topology).ok_or(TraceError::NoLink(site))?));
    let links = sites.into_iter().map(find).collect::<Result<Vec<_>, TraceError>>()?;

    let mut simulation = Simulation::new(run)?;
    fs::create_dir_all(folder)?;
    let path = folder.join("timeline.csv");
    let timeline = Output::new(Timeline::new(BufWriter::new(File::create(&path)?), flow.bytes)?);
    let mut files = vec![path];
    let shared = timeline.clone();
    simulation.set_watch(
        flow.from,
        flow.id,
        Box::new(move |at, stats| Output::write(&shared, |timeline| timeline.sample(at, stats))),
    );
    let mut captures = Vec::new();
    for (site, link) in links {
        let path = folder.join(format!("{}.pcap", site.to_string().replace(':', "-")));
        captures.push((link, Output::new((Pcap::new(BufWriter::new(File::create(&path)?))?, 0_u64))));
        files.push(path);
    }
    let (taps, most) = (captures.clone(), plan.packets);
    simulation.set_tap(Box::new(move |at, link: LinkId, packet| {
        for (_, capture) in taps.iter().filter(|(tapped, _)| *tapped == link) {
            Output::write(capture, |(pcap, written)| {
                if *written < most {
                    *written += 1;
                    pcap.packet(at, packet)?;
                }
                Ok(())
            });
        }
    }));

    while simulation.step()? {
        while simulation.poll_record().is_some() {}
    }
    Output::close(&timeline, Timeline::flush)?;
    for (_, capture) in &captures {
        Output::close(capture, |(pcap, _)| pcap.flush())?;
    }
    Ok(Traced { world: run.label.to_string(), flow, files })
}
