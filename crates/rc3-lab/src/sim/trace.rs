//! Traces of one world: captures of links, and the time line of a flow's sender.

use std::{
    fs::{self, File},
    io::{self, BufWriter},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rc3_sim::{
    agent::Flow,
    scenario::Run,
    simulation::Simulation,
    topology::Site,
    trace::{Pcap, Timeline},
    world::LinkId,
};

use super::{
    args::SimTraceArgs,
    experiment::{ExperimentError, not_written},
};

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
struct TraceFile<T> {
    to: T,
    error: Option<io::Error>,
}

impl<T> TraceFile<T> {
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
pub fn trace(runs: &[Run], plan: &SimTraceArgs) -> Result<Traced, ExperimentError> {
    let folder = plan.out.as_path();
    let world = plan.world.checked_sub(1).and_then(|at| runs.get(at));
    let run = world.ok_or_else(|| {
        let message = format!("there is no world {}, the scenario makes {}", plan.world, runs.len());
        wrong(message, "rc3-lab sim run --json NAME prints a line for each world")
    })?;
    let flow = plan.flow.checked_sub(1).filter(|&place| place < run.measure.flows);
    let flow = flow.and_then(|place| run.measured_flow(place)).ok_or_else(|| {
        let hint = "raise measure.flows or choose a smaller number; flows of closed loops cannot be followed";
        wrong(format!("there is no flow {}", plan.flow), hint)
    })?;
    let sites = if plan.link.is_empty() { vec![Site::Uplink(flow.from)] } else { plan.link.clone() };
    let find = |site: Site| match site.link(&run.topology) {
        Some(link) => Ok((site, link)),
        None => Err(wrong(
            format!("there is no link {site}"),
            "hosts and routers are counted from 0, and only neighbours are joined",
        )),
    };
    let links = sites.into_iter().map(find).collect::<Result<Vec<_>, ExperimentError>>()?;

    let mut simulation = Simulation::new(run)?;
    fs::create_dir_all(folder).map_err(not_written(folder))?;
    let create = |path: &Path| File::create(path).map(BufWriter::new).map_err(not_written(path));
    let path = folder.join("timeline.csv");
    let timeline = Timeline::new(create(&path)?, flow.bytes).map_err(not_written(&path))?;
    let timeline = TraceFile::new(timeline);
    let mut files = vec![path];
    let shared = timeline.clone();
    simulation.set_watch(
        flow.from,
        flow.id,
        Box::new(move |at, stats| TraceFile::write(&shared, |timeline| timeline.sample(at, stats))),
    );
    let mut captures = Vec::new();
    for (site, link) in links {
        let path = folder.join(format!("{}.pcap", site.to_string().replace(':', "-")));
        let pcap = Pcap::new(create(&path)?).map_err(not_written(&path))?;
        captures.push((link, TraceFile::new((pcap, 0_u64))));
        files.push(path);
    }
    let (taps, most) = (captures.clone(), plan.packets);
    simulation.set_tap(Box::new(move |at, link: LinkId, packet| {
        for (_, capture) in taps.iter().filter(|(tapped, _)| *tapped == link) {
            TraceFile::write(capture, |(pcap, written)| {
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
    TraceFile::close(&timeline, Timeline::flush).map_err(not_written(&files[0]))?;
    for ((_, capture), path) in captures.iter().zip(&files[1..]) {
        TraceFile::close(capture, |(pcap, _)| pcap.flush()).map_err(not_written(path))?;
    }
    Ok(Traced { world: run.label.to_string(), flow, files })
}

/// The command names something that is not there.
fn wrong(message: String, hint: &'static str) -> ExperimentError {
    ExperimentError::Other { message, hint, is_usage: true }
}
