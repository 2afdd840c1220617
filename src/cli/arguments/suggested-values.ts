import { Option } from 'commander'

/** Option with values for completion. The server validates them, because one value may hold several. */
export class Offering extends Option {
  readonly offers: readonly string[]

  constructor(flags: string, description: string, offers: readonly string[]) {
    super(flags, description)
    this.offers = offers
  }
}
