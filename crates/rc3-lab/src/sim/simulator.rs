//! The simulator as an engine.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rc3_sim::{
    agent::FlowId,
    record::FlowRecord,
    scenario::Run,
    simulation::Simulation,
    world::{Counts, Tap},
};
use rc3_text::units::about_time;

use super::{
    engine::{Cost, Engine, SentPacket, WorldOutcome},
    links::LinkRow,
};

/// Flows between two calls of `progress`.
const PROGRESS_FLOWS: u64 = 100;

/// Runs worlds in virtual time, with the real transport in the hosts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Simulator;

impl Engine for Simulator {
    fn simulate(
        &self,
        run: &Run,
        trace: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<WorldOutcome, String> {
        let text = |error: rc3_sim::simulation::SimulationError| error.to_string();
        let mut simulation = Simulation::new(run).map_err(text)?;
        let sent = Arc::new(Mutex::new(Vec::new()));
        if trace {
            let flow = run.measured_flow(0).map_or(FlowId(0), |flow| flow.id);
            simulation.set_tap(tap(&simulation, flow, sent.clone()));
        }
        let mut records = Vec::new();
        let mut reported = 0;
        loop {
            let goes_on = simulation.step().map_err(text)?;
            records.extend(std::iter::from_fn(|| simulation.poll_record()));
            let ended = simulation.world().counts().flows_ended;
            if ended >= reported + PROGRESS_FLOWS || !goes_on {
                reported = ended;
                progress(ended);
            }
            if !goes_on {
                break;
            }
        }
        let beside = simulation.beside();
        if beside.is_none() {
            check_ended(run, &records, simulation.world().elapsed())?;
        }
        records.sort_by_key(|record| record.flow);
        let links = simulation.link_reports().into_iter().map(LinkRow::from).collect();
        let Counts { events, link_packets, flows_ended, .. } = simulation.world().counts();
        let sent = std::mem::take(&mut *sent.lock().unwrap_or_else(PoisonError::into_inner));
        let samples = simulation.take_samples();
        let cost = Cost { flows: flows_ended, events, link_packets };
        Ok(WorldOutcome { records, sent, samples, beside, links, cost })
    }
}

/// A world in which no measured flow has ended has no result, unless it samples a link.
fn check_ended(run: &Run, records: &[FlowRecord], end: Duration) -> Result<(), String> {
    let ended = records.iter().any(|record| record.fct.is_some());
    match ended || run.measure.sample.is_some() {
        true => Ok(()),
        false => Err(format!(
            "no measured flow had ended when the world did, after {}; raise `measure.until` or lower the load",
            about_time(end)
        )),
    }
}

/// Records the packets that the sender of a flow puts on its uplink.
fn tap(simulation: &Simulation, flow: FlowId, sent: Arc<Mutex<Vec<SentPacket>>>) -> Tap {
    let uplinks = simulation.uplinks().to_vec();
    let mut sender = None;
    Box::new(move |at, link, packet| {
        if packet.payload.flow != flow {
            return;
        }
        // The first packet of a flow is its sender's.
        let sender = *sender.get_or_insert(packet.payload.from);
        if packet.payload.from == sender && uplinks.get(sender.0 as usize) == Some(&link) {
            let mut sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
            sent.push(SentPacket { at, level: packet.level.get(), size: packet.size });
        }
    })
}
