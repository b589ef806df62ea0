//! Records of earlier builds hold sentences where data stands now. They are read as such a
//! sentence: a record that was kept stays readable, and is written back as data.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Data that stood in a record as a sentence once.
pub(super) trait Sentence {
    /// The sentence that an earlier build wrote.
    fn sentence(text: String) -> Self;
}

/// Data, or the sentence in its place.
struct Either<T>(T);

struct OfEither<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Sentence> Visitor<'de> for OfEither<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, or text of an earlier version")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok(T::sentence(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

impl<'de, T: Deserialize<'de> + Sentence> Deserialize<'de> for Either<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(OfEither(PhantomData))
            .map(Self)
    }
}

/// Reads data in whose place a sentence may stand.
pub(super) fn one<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Sentence,
{
    Ok(Either::deserialize(deserializer)?.0)
}

/// The same where it may be absent.
pub(super) fn optional<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Sentence,
{
    let read: Option<Either<T>> = Option::deserialize(deserializer)?;
    Ok(read.map(|either| either.0))
}

struct OfList<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Sentence> Visitor<'de> for OfList<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list, or text of an earlier version")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
        Ok(vec![T::sentence(text.to_owned())])
    }

    fn visit_unit<E: Error>(self) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(Either(entry)) = list.next_element()? {
            all.push(entry);
        }
        Ok(all)
    }
}

/// Reads a list in whose place one sentence may stand, or a sentence in that of an entry.
pub(super) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Sentence,
{
    deserializer.deserialize_any(OfList(PhantomData))
}
