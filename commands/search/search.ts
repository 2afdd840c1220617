import type { Command } from 'commander'
import { group } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { searchQuery } from './query.ts'
import { searchReindex } from './reindex.ts'
import { searchSimilar } from './similar.ts'
import { searchStatus } from './status.ts'
import { searchSuggest } from './suggest.ts'
import { searchVerify } from './verify.ts'

export const search = (cli: Cli): Command =>
  group('search', 'Search documents and manage the index', [
    searchQuery(cli),
    searchSimilar(cli),
    searchSuggest(cli),
    searchReindex(cli),
    searchStatus(cli),
    searchVerify(cli),
  ])
