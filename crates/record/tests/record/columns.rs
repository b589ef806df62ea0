//! Columns of every type: what is written is what another reader of Parquet finds.

use std::fs::File;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use proptest::prelude::*;
use punctual_record::parquet::{Column, Packing, Values, Writer};

/// A row: each type, present or not.
type Row = (
    i32,
    i64,
    Option<i64>,
    f64,
    Option<f64>,
    String,
    Option<String>,
);

fn columns(rows: &[Row]) -> [Column; 7] {
    let column = |name, values| Column { name, values };
    [
        column("int", Values::Int(rows.iter().map(|row| row.0).collect())),
        column("long", Values::Long(rows.iter().map(|row| row.1).collect())),
        column(
            "long_or_none",
            Values::LongOrNone(rows.iter().map(|row| row.2).collect()),
        ),
        column(
            "double",
            Values::Double(rows.iter().map(|row| row.3).collect()),
        ),
        column(
            "double_or_none",
            Values::DoubleOrNone(rows.iter().map(|row| row.4).collect()),
        ),
        column(
            "text",
            Values::Text(rows.iter().map(|row| row.5.clone()).collect()),
        ),
        column(
            "text_or_none",
            Values::TextOrNone(rows.iter().map(|row| row.6.clone()).collect()),
        ),
    ]
}

fn written(groups: &[&[Row]], packing: Packing) -> SerializedFileReader<File> {
    let mut writer = Writer::new(tempfile::tempfile().unwrap(), packing).unwrap();
    for group in groups {
        writer.write_group(&columns(group)).unwrap();
    }
    SerializedFileReader::new(writer.write_footer("the tests").unwrap()).unwrap()
}

fn read_back(reader: &SerializedFileReader<File>) -> Vec<Vec<(String, Field)>> {
    let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    rows.map(parquet::record::Row::into_columns).collect()
}

fn expected(row: &Row) -> Vec<(String, Field)> {
    let (int, long, long_or_none, double, double_or_none, text, text_or_none) = row.clone();
    let fields = [
        ("int", Field::Int(int)),
        ("long", Field::Long(long)),
        (
            "long_or_none",
            long_or_none.map_or(Field::Null, Field::Long),
        ),
        ("double", Field::Double(double)),
        (
            "double_or_none",
            double_or_none.map_or(Field::Null, Field::Double),
        ),
        ("text", Field::Str(text)),
        ("text_or_none", text_or_none.map_or(Field::Null, Field::Str)),
    ];
    fields
        .map(|(name, field)| (name.to_owned(), field))
        .to_vec()
}

fn row() -> impl Strategy<Value = Row> {
    let double = prop::num::f64::ANY.prop_filter("equal to itself", |it| !it.is_nan());
    (
        any::<i32>(),
        any::<i64>(),
        any::<Option<i64>>(),
        double.clone(),
        prop::option::of(double),
        ".{0,20}",
        prop::option::of(".{0,20}"),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any values, in groups of any length around the encoding's blocks, packed or not.
    #[test]
    fn any_columns_come_back(
        first in prop::collection::vec(row(), 0..300),
        second in prop::collection::vec(row(), 0..40),
        packed: bool,
    ) {
        let packing = if packed { Packing::Gzip } else { Packing::None };
        let found = read_back(&written(&[&first, &second], packing));
        let all: Vec<_> = first.iter().chain(&second).map(expected).collect();
        prop_assert_eq!(found, all);
    }
}

#[test]
fn a_table_without_rows_has_its_columns() {
    let reader = written(&[&[]], Packing::Gzip);
    let metadata = reader.metadata().file_metadata();
    let names = metadata
        .schema_descr()
        .columns()
        .iter()
        .map(|column| column.name());
    let expected = columns(&[]).map(|column| column.name);
    assert!(names.eq(expected));
    assert_eq!((metadata.num_rows(), reader.num_row_groups()), (0, 0));
}

#[test]
fn columns_that_do_not_fit_are_refused() {
    let mut writer = Writer::new(Vec::new(), Packing::None).unwrap();
    let column = |name, rows: &[i64]| Column {
        name,
        values: Values::Long(rows.to_vec()),
    };
    assert!(
        writer
            .write_group(&[column("a", &[1]), column("b", &[1, 2])])
            .is_err()
    );
    assert!(
        writer
            .write_group(&[column("a", &[1]), column("b", &[2])])
            .is_ok()
    );
    assert!(
        writer
            .write_group(&[column("b", &[1]), column("a", &[2])])
            .is_err()
    );
}
