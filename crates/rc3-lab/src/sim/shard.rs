//! Worlds spread over machines: each shard runs its part and stores the outcomes, and a merge reports on all of them.
//!
//! A shard of N takes every N-th world, counted over all experiments of the command. It writes `shards/job.json`, which is the
//! same for all shards, and `shards/EXPERIMENT/world-NNNNNN.json` for each world. So shards can share a folder or have one
//! each. A merge runs no world: an engine reads the outcomes, and all else is as in one run.

use std::{
    collections::HashMap,
    fmt, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    str::FromStr,
};

use rc3_sim::scenario::{Label, Run};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{
    engine::{Engine, Outcome},
    experiment::{Experiment, ExperimentError, Plan},
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

/// Why shards cannot be stored or merged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ShardError {
    /// A text that is no shard.
    #[error("`{0}` is no shard, write K/N with 1 <= K <= N, for example 2/8")]
    NoShard(String),
    /// Nothing to merge.
    #[error("there is no folder of shards")]
    NoFolder,
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A stored file is damaged.
    #[error("{}: {error}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: serde_json::Error,
    },
    /// The folder has shards of another command.
    #[error("{} is of another version, command or number of shards", .0.display())]
    OtherJob(PathBuf),
    /// A scenario is not what it was when the shards ran.
    #[error("`{0}` has changed since the shards ran")]
    Changed(String),
    /// A world has not run.
    #[error(
        "world {world} of {experiment} is missing, of shard {shard}; {missing} worlds are missing in all"
    )]
    Missing {
        /// The experiment.
        experiment: String,
        /// Its place, from 1.
        world: usize,
        /// The shard that runs it.
        shard: Shard,
        /// How many are missing.
        missing: usize,
    },
}

impl ShardError {
    /// What to do next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoShard(_) => "K counts from 1",
            Self::NoFolder => "name the folders that shards ran into",
            Self::File { .. } => "check the name of the folder, its permissions and free space",
            Self::Format { .. } => "delete the file and run its shard again",
            Self::OtherJob(_) => {
                "use one folder for each command: choose another --out, or delete its folder `shards`"
            }
            Self::Changed(_) => "run all shards again, or restore the scenario file",
            Self::Missing { .. } => "run that shard again with the same names and keys, then merge",
        }
    }
}

impl Shard {
    /// Whether it runs a world, counted over all experiments from 0.
    pub fn takes(self, world: usize) -> bool {
        world % self.of == self.index
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let parse = || {
            let (number, of) = text.split_once('/')?;
            let (number, of): (usize, usize) = (number.trim().parse().ok()?, of.trim().parse().ok()?);
            ((1..=of).contains(&number) && of <= SHARDS_MAX).then(|| Self { index: number - 1, of })
        };
        parse().ok_or_else(|| ShardError::NoShard(text.to_owned()))
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
        plan: &Plan,
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
    pub fn read(folders: &[PathBuf]) -> Result<Self, ShardError> {
        let (first, others) = folders.split_first().ok_or(ShardError::NoFolder)?;
        let job: Self = read(&job_path(first))?;
        if job.version != env!("CARGO_PKG_VERSION") {
            return Err(ShardError::OtherJob(job_path(first)));
        }
        for folder in others {
            let path = job_path(folder);
            if read::<Self>(&path)? != job {
                return Err(ShardError::OtherJob(path));
            }
        }
        Ok(job)
    }

    /// Writes it into a folder, which may have it already.
    ///
    /// # Errors
    /// If the folder has another one, or cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), ShardError> {
        let path = job_path(folder);
        if path.exists() {
            let same = read::<Self>(&path)? == *self;
            return if same { Ok(()) } else { Err(ShardError::OtherJob(path)) };
        }
        write(&path, self)
    }

    /// Checks that the scenarios are those of the job.
    ///
    /// # Errors
    /// [`ShardError::Changed`].
    pub fn check(&self, experiments: &[Experiment]) -> Result<(), ExperimentError> {
        for (experiment, fingerprint) in experiments.iter().zip(&self.fingerprints) {
            if experiment.fingerprint()? != *fingerprint {
                return Err(ShardError::Changed(experiment.scenario().spec().name.clone()).into());
            }
        }
        Ok(())
    }

    /// Whether all worlds of an experiment have run.
    pub fn is_complete(&self, experiment: &Experiment, folders: &[PathBuf]) -> bool {
        let name = &experiment.scenario().spec().name;
        let has = |world| folders.iter().any(|folder| is_stored(folder, name, world));
        (0..experiment.runs().len()).all(has)
    }

    /// Finds the outcome of each world of each experiment.
    ///
    /// # Errors
    /// [`ShardError::Missing`].
    pub fn find(&self, experiments: &[Experiment], folders: &[PathBuf]) -> Result<Vec<Stored>, ShardError> {
        let (mut stored, mut missing, mut first) = (Vec::new(), 0, None);
        let mut count = 0;
        for experiment in experiments {
            let name = &experiment.scenario().spec().name;
            let mut files = Stored::default();
            for (world, run) in experiment.runs().iter().enumerate() {
                let mut paths = folders.iter().map(|folder| world_path(folder, name, world));
                match paths.find(|path| path.exists()) {
                    Some(path) => files.add(&run.label, path),
                    None => {
                        missing += 1;
                        first.get_or_insert_with(|| (name.clone(), world + 1, count % self.of));
                    }
                }
                count += 1;
            }
            stored.push(files);
        }
        match first {
            Some((experiment, world, index)) => {
                Err(ShardError::Missing { experiment, world, shard: Shard { index, of: self.of }, missing })
            }
            None => Ok(stored),
        }
    }
}

/// Whether the outcome of a world is stored.
pub fn is_stored(folder: &Path, experiment: &str, world: usize) -> bool {
    world_path(folder, experiment, world).exists()
}

/// Stores the outcome of a world.
///
/// # Errors
/// If it cannot be written.
pub fn store(folder: &Path, experiment: &str, world: usize, outcome: &Outcome) -> Result<(), ShardError> {
    write(&world_path(folder, experiment, world), outcome)
}

/// The stored outcomes of an experiment, as an engine that runs nothing.
#[derive(Debug, Default)]
pub struct Stored {
    /// The file of each world, by the text of its label.
    files: HashMap<String, Vec<(Label, PathBuf)>>,
}

impl Stored {
    fn add(&mut self, label: &Label, path: PathBuf) {
        self.files.entry(label.to_string()).or_default().push((label.clone(), path));
    }

    fn find(&self, label: &Label) -> Option<&Path> {
        let files = self.files.get(&label.to_string())?;
        files.iter().find(|(known, _)| known == label).map(|(_, path)| path.as_path())
    }
}

impl Engine for Stored {
    fn simulate(&self, run: &Run, _: bool, progress: &mut dyn FnMut(u64)) -> Result<Outcome, String> {
        let path = self.find(&run.label).ok_or("no shard has run it")?;
        let outcome: Outcome = read(path).map_err(|error| error.to_string())?;
        progress(outcome.cost.flows);
        Ok(outcome)
    }
}

fn job_path(folder: &Path) -> PathBuf {
    folder.join("shards").join("job.json")
}

fn world_path(folder: &Path, experiment: &str, world: usize) -> PathBuf {
    folder.join("shards").join(experiment).join(format!("world-{:06}.json", world + 1))
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ShardError> {
    let text = fs::read(path).map_err(|error| ShardError::File { path: path.to_owned(), error })?;
    serde_json::from_slice(&text).map_err(|error| ShardError::Format { path: path.to_owned(), error })
}

/// Writes a file whole or not at all, even if another shard writes it at the same time.
fn write(path: &Path, contents: &impl Serialize) -> Result<(), ShardError> {
    let failed = |error: io::Error| ShardError::File { path: path.to_owned(), error };
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    fs::create_dir_all(folder).map_err(failed)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    serde_json::to_writer(io::BufWriter::new(&mut file), contents)
        .map_err(|error| ShardError::Format { path: path.to_owned(), error })?;
    file.flush().map_err(failed)?;
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
