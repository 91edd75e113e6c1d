package prim

// The primitives are registered family by family in this order, which decides their numbers: append, never reorder.
func init() {
	registerAttentionPrims()
	registerBatchnormPrims()
	registerBinaryPrims()
	registerCreatePrims()
	registerIndexPrims()
	registerLayernormPrims()
	registerLinalgPrims()
	registerLossPrims()
	registerMovePrims()
	registerOptimPrims()
	registerOrderPrims()
	registerProductPrims()
	registerRecurrencePrims()
	registerReducePrims()
	registerRowsPrims()
	registerSpecialPrims()
	registerUnaryPrims()
	registerWindowPrims()
	registerLoopPrims()
	registerFFT()
	setForms()
	setBatchRules()
	setJVPRules()
	setKnown()
}
