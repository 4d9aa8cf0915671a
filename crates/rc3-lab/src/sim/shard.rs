//! Worlds spread over machines: each shard runs its part and stores the outcomes, and a merge reports on all of them.
//!
//! A shard of N takes every N-th world, counted over all experiments of the command. It writes `shards/job.json`, which is the
//! same for all shards, and `shards/EXPERIMENT/world-NNNNNN.json` for each world. So shards can share a folder or have one
//! each. A merge runs no world: an engine reads the outcomes, and all else is as in one run.

use std::{
    fmt, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    str::FromStr,
};

use rc3_sim::scenario::{Label, Run};
use serde::{Deserialize, Serialize};

use super::{
    engine::{Engine, WorldOutcome},
    experiment::{Experiment, ExperimentError, ExperimentPlan, not_written},
};

/// Shards at most.
const SHARDS_MAX: usize = 100_000;

/// One part of the worlds: the `K`-th of `N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Counted from 0.
    index: usize,
    of: usize,
}

impl Shard {
    /// Whether it runs a world, counted over all experiments from 0.
    pub fn takes(self, world: usize) -> bool {
        world % self.of == self.index
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (number, of) = text.split_once('/')?;
            let (number, of): (usize, usize) = (number.trim().parse().ok()?, of.trim().parse().ok()?);
            ((1..=of).contains(&number) && of <= SHARDS_MAX).then(|| Self { index: number - 1, of })
        };
        parse().ok_or_else(|| format!("`{text}` is no shard, write K/N with 1 <= K <= N, for example 2/8"))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.of)
    }
}

/// What all shards of a command have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    version: String,
    /// Shards of the command.
    of: usize,
    /// Its experiments, by name or file.
    pub names: Vec<String>,
    /// Its changes of keys.
    pub changes: Vec<String>,
    /// Whether a small part runs.
    pub quick: bool,
    /// The commit that reports name, if any.
    pub commit: Option<String>,
    /// Those of the experiments: no two versions of the code may run parts of one job.
    fingerprints: Vec<String>,
}

impl Job {
    /// The job of a command.
    ///
    /// # Errors
    /// See [`Experiment::fingerprint`].
    pub fn new(
        names: &[String],
        plan: &ExperimentPlan,
        experiments: &[Experiment],
        shard: Shard,
    ) -> Result<Self, ExperimentError> {
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            of: shard.of,
            names: names.to_vec(),
            changes: plan.changes.clone(),
            quick: plan.quick,
            commit: plan.commit.clone(),
            fingerprints: experiments.iter().map(Experiment::fingerprint).collect::<Result<_, _>>()?,
        })
    }

    /// The job of all these folders.
    ///
    /// # Errors
    /// If they are of different jobs or of another version, or cannot be read.
    pub fn read(folders: &[PathBuf]) -> Result<Self, ExperimentError> {
        let mut jobs = Vec::new();
        for folder in folders {
            let job: Self = read(&job_path(folder))?;
            if job.version != env!("CARGO_PKG_VERSION") || jobs.first().is_some_and(|first| *first != job) {
                return Err(other_job(&job_path(folder)));
            }
            jobs.push(job);
        }
        jobs.pop().ok_or_else(|| {
            failure("there is no folder of shards".to_owned(), "name the folders that shards ran into")
        })
    }

    /// Writes it into a folder, which may have it already.
    ///
    /// # Errors
    /// If the folder has another one, or cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), ExperimentError> {
        let path = job_path(folder);
        match path.exists() {
            true if read::<Self>(&path)? == *self => Ok(()),
            true => Err(other_job(&path)),
            false => write(&path, self),
        }
    }

    /// Checks that the scenarios are those of the job.
    ///
    /// # Errors
    /// If one has changed.
    pub fn check(&self, experiments: &[Experiment]) -> Result<(), ExperimentError> {
        for (experiment, fingerprint) in experiments.iter().zip(&self.fingerprints) {
            if experiment.fingerprint()? != *fingerprint {
                let message = format!("`{}` has changed since the shards ran", experiment.name());
                return Err(failure(message, "run all shards again, or restore the scenario file"));
            }
        }
        Ok(())
    }

    /// The error of worlds that are missing, if there are any.
    ///
    /// # Errors
    /// If any of the worlds of all experiments has not run.
    pub fn check_complete(&self, stored: &[(&Experiment, Stored)]) -> Result<(), ExperimentError> {
        let worlds = stored.iter().flat_map(|(experiment, stored)| {
            stored.0.iter().enumerate().map(|(world, (_, path))| (experiment.name(), world + 1, path))
        });
        let mut missing = worlds.enumerate().filter(|(_, (.., path))| path.is_none());
        let Some((place, (name, world, _))) = missing.next() else { return Ok(()) };
        let (shard, all) = (Shard { index: place % self.of, of: self.of }, 1 + missing.count());
        let message =
            format!("world {world} of {name} is missing, of shard {shard}; {all} worlds are missing in all");
        Err(failure(message, "run that shard again with the same names and keys, then merge"))
    }
}

/// The stored outcomes of an experiment, as an engine that runs nothing: the file of each world, if it has run.
#[derive(Debug)]
pub struct Stored(Vec<(Label, Option<PathBuf>)>);

impl Stored {
    /// Those in any of these folders.
    pub fn find(experiment: &Experiment, folders: &[PathBuf]) -> Self {
        let file = |(world, run): (usize, &Run)| {
            let mut paths = folders.iter().map(|folder| world_path(folder, experiment.name(), world));
            (run.label.clone(), paths.find(|path| path.exists()))
        };
        Self(experiment.runs().iter().enumerate().map(file).collect())
    }

    /// Whether all worlds have run.
    pub fn is_complete(&self) -> bool {
        self.0.iter().all(|(_, path)| path.is_some())
    }
}

impl Engine for Stored {
    fn simulate(&self, run: &Run, _: bool, progress: &mut dyn FnMut(u64)) -> Result<WorldOutcome, String> {
        let world = self.0.iter().find(|(label, _)| *label == run.label);
        let path = world.and_then(|(_, path)| path.as_ref()).ok_or("no shard has run it")?;
        let outcome: WorldOutcome = read(path).map_err(|error| error.to_string())?;
        progress(outcome.cost.flows);
        Ok(outcome)
    }
}

fn job_path(folder: &Path) -> PathBuf {
    folder.join("shards").join("job.json")
}

/// The file of the outcome of a world.
pub fn world_path(folder: &Path, experiment: &str, world: usize) -> PathBuf {
    folder.join("shards").join(experiment).join(format!("world-{:06}.json", world + 1))
}

fn failure(message: String, hint: &'static str) -> ExperimentError {
    ExperimentError::Other { message, hint, is_usage: false }
}

fn other_job(path: &Path) -> ExperimentError {
    let message = format!("{} is of another version, command, input or number of shards", path.display());
    failure(message, "use one folder for each command: choose another --out, or delete its folder `shards`")
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ExperimentError> {
    let text = fs::read(path).map_err(|error| ExperimentError::Read { path: path.to_owned(), error })?;
    serde_json::from_slice(&text).map_err(|error| {
        failure(format!("{}: {error}", path.display()), "delete the file and run its shard again")
    })
}

/// Writes a file whole or not at all, even if another shard writes it at the same time.
pub fn write(path: &Path, contents: &impl Serialize) -> Result<(), ExperimentError> {
    let failed = not_written(path);
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    fs::create_dir_all(folder).map_err(&failed)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(&failed)?;
    serde_json::to_writer(io::BufWriter::new(&mut file), contents).map_err(|error| failed(error.into()))?;
    file.flush().map_err(&failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_world_is_in_one_shard() {
        let shards: Vec<Shard> = (1..=3).map(|number| format!("{number}/3").parse().unwrap()).collect();
        for world in 0..20 {
            assert_eq!(shards.iter().filter(|shard| shard.takes(world)).count(), 1, "world {world}");
        }
        assert_eq!(shards[1].to_string(), "2/3");
        for text in ["", "1", "0/3", "4/3", "1/0", "a/b", "1/3/5", "1/100001"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
