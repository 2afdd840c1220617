import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { group } from '../src/cli/manual.ts'
import { searchQuery } from './search-query.ts'
import { searchReindex } from './search-reindex.ts'
import { searchSimilar } from './search-similar.ts'
import { searchStatus } from './search-status.ts'
import { searchSuggest } from './search-suggest.ts'
import { searchVerify } from './search-verify.ts'

/** `dms search`: finding documents, and the index that they are found by. */
export const search = (cli: Cli): Command =>
  group('search', 'Search: documents by their words.', [
    searchQuery(cli),
    searchSimilar(cli),
    searchSuggest(cli),
    searchReindex(cli),
    searchStatus(cli),
    searchVerify(cli),
  ])
