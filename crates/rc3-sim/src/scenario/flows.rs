//! From the flows that are written to those that arrive.

use std::{fmt, fs, path::Path};

use rc3_text::document::Fault;

use super::{
    quantity::{Factor, Share},
    resolve::{refuse_if, router_is_there},
    spec::{Arrivals, ClosedLoopSpec, ListedFlow, SizesSpec, WorkloadSpec},
};
use crate::{
    agent::{HostId, Writes},
    registry::within,
    topology::Topology,
    workload::{self, ArrivalProcess, ClosedLoop, Ends, Listed, One, Poisson, Sizes, Workload},
};

/// More sources are refused as a mistake: each has a state of its own.
const SOURCES_MAX: u32 = 1_000_000;

/// The table `workload` of a scenario, or one of `background`.
pub(super) struct FlowTable<'a> {
    pub(super) spec: &'a WorkloadSpec,
    /// Its key.
    pub(super) key: String,
    /// Paths are relative to it.
    pub(super) folder: &'a Path,
    pub(super) topology: &'a Topology,
}

impl FlowTable<'_> {
    /// Its flows.
    pub(super) fn workload(&self) -> Result<Workload, Fault> {
        let spec = self.spec;
        let arrivals = match (spec.arrivals, spec.closed_loop) {
            (Arrivals::Poisson, ..) => ArrivalProcess::Poisson(self.poisson()?),
            (Arrivals::ClosedLoop, Some(sources)) => ArrivalProcess::ClosedLoop(self.closed_loop(sources)?),
            (Arrivals::ClosedLoop, None) => unreachable!("keys are checked"),
            (Arrivals::Csv, ..) => ArrivalProcess::List(self.replayed()?),
            (Arrivals::List, ..) => ArrivalProcess::List(self.listed()?),
            (Arrivals::One, ..) => ArrivalProcess::One(One {
                bytes: spec.size.unwrap_or_default(),
                taught_at: spec.taught_at.map(Factor::get),
                taught_elsewhere: spec.taught_elsewhere,
                rate_change: spec.rate_change.map(Factor::get),
            }),
            (Arrivals::Long, ..) => ArrivalProcess::Long(spec.count.unwrap_or_default()),
            (Arrivals::Short, ..) => ArrivalProcess::Short(spec.load.map_or(0.0, Share::get)),
        };
        Ok(Workload { arrivals, writes: self.writes()? })
    }

    fn poisson(&self) -> Result<Poisson, Fault> {
        let load = self.spec.load.map_or(0.0, Share::get);
        let poisson = Poisson { sizes: self.sizes()?, load, ends: self.ends()? };
        let never = poisson.mean_gap(self.topology).is_none();
        self.refuse_if(never, "load", "so small or large that no flow ever arrives, or all at once")?;
        Ok(poisson)
    }

    fn closed_loop(&self, spec: ClosedLoopSpec) -> Result<ClosedLoop, Fault> {
        let ClosedLoopSpec { sources, think } = spec;
        let (sizes, ends) = (self.sizes()?, self.ends()?);
        within(sources, 1..=SOURCES_MAX, self.below("closed-loop.sources"))?;
        Ok(ClosedLoop { sources, think, sizes, ends })
    }

    /// The flows of its file.
    fn replayed(&self) -> Result<Vec<Listed>, Fault> {
        let file = self.spec.file.as_deref().unwrap_or_default();
        let flows = workload::replay(&self.read(file, "file")?, file, self.topology);
        flows.map_err(|error| Fault::new(self.below("file"), error))
    }

    /// The flows written in it, in order of time.
    fn listed(&self) -> Result<Vec<Listed>, Fault> {
        let flows = self.spec.flows.iter().flatten().enumerate();
        let flows = flows.map(|(n, flow)| self.alike(flow, &format!("flows.{n}")));
        let mut flows = flows.collect::<Result<Vec<_>, Fault>>()?.concat();
        flows.sort_by_key(|flow| flow.at);
        Ok(flows)
    }

    /// A flow of the list and those that are like it.
    fn alike(&self, flow: &ListedFlow, key: &str) -> Result<Vec<Listed>, Fault> {
        let (count, hosts) = (flow.count.unwrap_or(1), self.topology.hosts.len());
        for (name, host) in [("from", flow.from), ("to", flow.to)] {
            let last = u64::from(host) + u64::from(count.saturating_sub(1));
            let message = format_args!("there is no host {last}, only {hosts} of them");
            self.refuse_if(last >= hosts as u64, &format!("{key}.{name}"), message)?;
        }
        let (at, every) = (flow.at.unwrap_or_default(), flow.every.unwrap_or_default());
        let like = (0..count).map(|n| Listed {
            at: at + every * n,
            from: HostId(flow.from + n),
            to: HostId(flow.to + n),
            bytes: flow.size,
        });
        let like: Vec<Listed> = like.collect();
        for flow in &like {
            workload::check_ends(self.topology, flow.from, flow.to)
                .map_err(|message| Fault::new(self.below(key), message))?;
        }
        self.refuse_if(flow.size == 0, &format!("{key}.size"), "a flow without bytes")?;
        Ok(like)
    }

    fn writes(&self) -> Result<Writes, Fault> {
        let at_once = self.spec.give_up.is_some_and(|after| after.is_zero());
        self.refuse_if(at_once, "give-up", "is zero, so every flow would be given up at once")?;
        let Some(writes) = self.spec.writes else {
            return Ok(self.spec.give_up.map_or(Writes::AtOnce, Writes::Until));
        };
        self.refuse_if(self.spec.give_up.is_some(), "give-up", "means nothing with `writes`")?;
        let never = writes.chunk == 0 || writes.every.is_zero();
        self.refuse_if(never, "writes", "`chunk` and `every` must be above zero")?;
        Ok(Writes::Chunked { first: writes.first, chunk: writes.chunk, every: writes.every })
    }

    fn sizes(&self) -> Result<Sizes, Fault> {
        let sizes = match self.spec.sizes.as_ref().expect("keys are checked") {
            SizesSpec::Allman2013 => Ok(Sizes::allman2013()),
            SizesSpec::Campus2000 => Ok(Sizes::campus2000()),
            SizesSpec::Agh2015 => Ok(Sizes::agh2015()),
            SizesSpec::Datamining => Ok(Sizes::datamining()),
            SizesSpec::Dctcp => Ok(Sizes::dctcp()),
            SizesSpec::Fixed(packets) => Sizes::fixed(*packets),
            SizesSpec::Uniform(law) => Sizes::uniform(law.min, law.max),
            SizesSpec::Pareto(law) => Sizes::pareto(law.mean, law.shape, law.min, law.max),
            SizesSpec::File(file) => Sizes::from_csv(&self.read(file, "sizes")?, file),
        };
        sizes.map_err(|error| Fault::new(self.below("sizes"), error))
    }

    fn ends(&self) -> Result<Ends, Fault> {
        for (name, routers) in [("from", &self.spec.from), ("to", &self.spec.to)] {
            for (n, router) in routers.iter().flatten().enumerate() {
                router_is_there(*router, self.topology, self.below(&format!("{name}.{n}")))?;
            }
        }
        let ends = Ends { from: self.spec.from.clone(), to: self.spec.to.clone() };
        let is_lonely = ends.pairs(self.topology).is_none();
        refuse_if(is_lonely, &*self.key, "a host has no host at another router to send to")?;
        Ok(ends)
    }

    /// The text of a file that the key `name` names.
    fn read(&self, file: &str, name: &str) -> Result<String, Fault> {
        let text = fs::read_to_string(self.folder.join(file));
        text.map_err(|error| Fault::new(self.below(name), format_args!("{file}: {error}")))
    }

    fn refuse_if(&self, holds: bool, name: &str, reason: impl fmt::Display) -> Result<(), Fault> {
        refuse_if(holds, self.below(name), reason)
    }

    /// The key of its key `name`.
    fn below(&self, name: &str) -> String {
        format!("{}.{name}", self.key)
    }
}
