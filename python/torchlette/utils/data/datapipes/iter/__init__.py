"""Pipes of items one after the other."""

from torchlette.utils.data.datapipes.iter.grouping import BatcherIterDataPipe as Batcher
from torchlette.utils.data.datapipes.iter.grouping import GrouperIterDataPipe as Grouper
from torchlette.utils.data.datapipes.iter.grouping import UnBatcherIterDataPipe as UnBatcher
from torchlette.utils.data.datapipes.iter.several import ConcaterIterDataPipe as Concater
from torchlette.utils.data.datapipes.iter.several import DemultiplexerIterDataPipe as Demultiplexer
from torchlette.utils.data.datapipes.iter.several import ForkerIterDataPipe as Forker
from torchlette.utils.data.datapipes.iter.several import MultiplexerIterDataPipe as Multiplexer
from torchlette.utils.data.datapipes.iter.several import ZipperIterDataPipe as Zipper
from torchlette.utils.data.datapipes.iter.single import CollatorIterDataPipe as Collator
from torchlette.utils.data.datapipes.iter.single import FilterIterDataPipe as Filter
from torchlette.utils.data.datapipes.iter.single import IterableWrapperIterDataPipe as IterableWrapper
from torchlette.utils.data.datapipes.iter.single import MapperIterDataPipe as Mapper
from torchlette.utils.data.datapipes.iter.single import SamplerIterDataPipe as Sampler
from torchlette.utils.data.datapipes.iter.single import ShardingFilterIterDataPipe as ShardingFilter
from torchlette.utils.data.datapipes.iter.single import ShufflerIterDataPipe as Shuffler

__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Demultiplexer",
    "Filter",
    "Forker",
    "Grouper",
    "IterableWrapper",
    "Mapper",
    "Multiplexer",
    "Sampler",
    "ShardingFilter",
    "Shuffler",
    "UnBatcher",
    "Zipper",
]
